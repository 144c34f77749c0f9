"""The encoder of the Transformer (Vaswani et al. 2017).

    x = dropout(sqrt(size) E source + positions)
    x = x + self-attention(x)
    x = x + feed-forward(x), or a mixture of experts                      N times

Each sum with its dropout and layer norm is a `Residual`.

Accelerated by `compiled/transformer/encoder.py`, equal in tests/compiled/test_native.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from regard.attention import (
    FullSpan,
    Mask,
    MultiHeadOutput,
    MultiHeadSelfAttention,
    Rotate,
    Span,
    none_if_full,
    padding,
)
from regard.data.batch import Numbers, Tokens
from regard.layers.embedder import Embedder
from regard.layers.residual import Residual
from regard.models.contracts import AttentionBlock, Encoded
from regard.names import AttentionKind
from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class EncoderArguments:
    """Arguments that all layers of an encoder share in one call: the mask, and the rotation of
    queries and keys."""

    visible: Mask | None
    rotate: Rotate
    need_weights: bool


@dataclass(frozen=True)
class EncoderLayerOutput:
    """Output of an encoder layer: states, and attention weights if requested."""

    states: Float[Tensor, "batch source size"]
    attention: MultiHeadOutput


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network or experts."""

    def __init__(
        self,
        self_attention: MultiHeadSelfAttention,
        feed_forward: nn.Module,
        residuals: tuple[Residual, Residual],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.self_residual, self.feed_forward_residual = residuals

    def forward(
        self,
        states: Float[Tensor, "batch source size"],
        shared: EncoderArguments,
    ) -> EncoderLayerOutput:
        inputs = self.self_residual.before(states)
        attention = self.self_attention(
            inputs, shared.visible, shared.rotate, need_weights=shared.need_weights
        )
        states = self.self_residual.after(states, attention.context)
        change = self.feed_forward(self.feed_forward_residual.before(states))
        return EncoderLayerOutput(self.feed_forward_residual.after(states, change), attention)


class TransformerEncoder(nn.Module):
    """Stack of encoder layers. `norm` follows the last layer: a layer norm if norms come before
    sublayers, else the identity."""

    varies_in_batches = True

    def __init__(
        self,
        embedder: Embedder,
        layers: Sequence[EncoderLayer],
        norm: nn.Module,
        span: Span | None = None,
    ) -> None:
        """`span` is the attention span of each position, by default the whole source."""
        super().__init__()
        self.span = span or FullSpan()
        self.embedder = embedder
        self.layers = cast(Sequence[EncoderLayer], nn.ModuleList(layers))
        self.norm = norm

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """Return the embeddings and the states of every layer, the last after the norm."""
        positions = range(source.inputs.size(1))
        mask = none_if_full(source.mask)
        rotate = self.embedder.rotation(positions)
        states = [self.embedder(source.inputs, positions)]
        key_mask = None if mask is None else padding(mask)
        visible = self.span.bidirectional_mask(key_mask, states[0])
        shared = EncoderArguments(visible, rotate, need_weights)
        outputs: list[EncoderLayerOutput] = []
        for layer in self.layers:
            outputs.append(layer(states[-1], shared))
            states.append(outputs[-1].states)
        states[-1] = self.norm(states[-1])
        attention = blocks_of_layers("encoder", [output.attention for output in outputs])
        return Encoded(tuple(states), source.mask, attention=attention)


def blocks_of_layers(
    kind: AttentionKind, layers: list[MultiHeadOutput]
) -> tuple[AttentionBlock, ...]:
    """Return one block of all layers; none if weights were not requested."""
    weights = [layer.weights for layer in layers if layer.weights is not None]
    scores = [layer.scores for layer in layers if layer.scores is not None]
    if not weights:
        return ()
    return (AttentionBlock(kind, torch.stack(weights, dim=1), torch.stack(scores, dim=1)),)
