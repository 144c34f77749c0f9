"""Parts and state of the recurrent decoders. The wiring, in `decoders.py`, is each decoder's own.

Accelerated by `compiled/recurrent/parts.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import LayerOutputs, Stack
from regard.models.contracts import Memory
from regard.models.memory import summary
from regard.models.recurrent.attention import DecoderAttentionState
from regard.models.recurrent.bridge import Bridge
from regard.models.recurrent.output import Output
from regard.numerics.linear import Linear
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class RecurrentState:
    """Recurrent states of every hypothesis, and the vector fed into its next step.

    `cell` is None for kinds without cells. `attention` is the state of the decoder attention: None
    for a decoder without attention, and for intra-decoder attention before the first step."""

    hidden: Float[Tensor, "batch hypothesis layer hidden"]
    cell: Float[Tensor, "batch hypothesis layer hidden"] | None
    fed: Float[Tensor, "batch hypothesis fed"]
    attention: DecoderAttentionState | None

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> RecurrentState:
        batch, width = self.hidden.shape[:2]
        sentences = torch.arange(batch, device=hypotheses.device)[:, None]
        rows = torch.add(hypotheses, sentences, alpha=width).flatten()

        def selected(values: Tensor) -> Tensor:
            flat = values.flatten(0, 1).index_select(0, rows)
            return flat.view(*hypotheses.shape, *values.shape[2:])

        return RecurrentState(
            selected(self.hidden),
            None if self.cell is None else selected(self.cell),
            selected(self.fed),
            None if self.attention is None else self.attention.select(sentences, hypotheses),
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> RecurrentState:
        return RecurrentState(
            self.hidden[sentences],
            None if self.cell is None else self.cell[sentences],
            self.fed[sentences],
            None if self.attention is None else self.attention.keep(sentences),
        )


class DecoderParts(nn.Module):
    """Modules of every recurrent decoder: embedding, stack, bridge, output and projection."""

    def __init__(
        self,
        embedding: nn.Embedding,
        stack: Stack,
        bridge: Bridge,
        output: Output,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.bridge = bridge
        self.output = output
        self.dropout = Dropout(dropout)
        self.projection = Linear(output.feature_size, embedding.num_embeddings)

    def embed(self, tokens: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target embedding"]:
        """Return embeddings, with dropout in training. In a step the target axis counts
        hypotheses."""
        return self.dropout(self.embedding(tokens))

    def start(
        self, memories: tuple[Memory, ...], attention: DecoderAttentionState | None, fed: int = 0
    ) -> RecurrentState:
        """Return the state before the first step, with one hypothesis a sentence.

        The bridge computes hidden states and cells from the summary of the first memory. The fed
        vector is zeros of size `fed`. ValueError if the memory has no summary."""
        first = self.bridge(summary(memories[0]))
        hidden = first.hidden[:, None]
        cell = None if first.cell is None else first.cell[:, None]
        return RecurrentState(hidden, cell, hidden.new_zeros(hidden.size(0), 1, fed), attention)

    def advance(
        self,
        inputs: Float[Tensor, "batch hypothesis input"],
        state: RecurrentState,
    ) -> tuple[RecurrentState, LayerOutputs]:
        """Compute one step of the recurrent layers for every hypothesis. Return the state with new
        hidden states and cells, and the outputs of the layers."""
        axes = inputs.shape[:2]
        cell = None if state.cell is None else state.cell.flatten(0, 1)
        output = self.stack.step(inputs.flatten(0, 1), state.hidden.flatten(0, 1), cell)
        hidden = output.hidden.unflatten(0, axes)
        cell = None if output.cell is None else output.cell.unflatten(0, axes)
        outputs = tuple(layer[:, 0].unflatten(0, axes) for layer in output.outputs)
        return replace(state, hidden=hidden, cell=cell), LayerOutputs(outputs)

    def run_layers(
        self,
        inputs: Float[Tensor, "batch target input"],
        state: RecurrentState,
    ) -> LayerOutputs:
        """Compute all steps of the recurrent layers in one call, from the state of `start`."""
        cell = None if state.cell is None else state.cell[:, 0]
        return self.stack(inputs, state.hidden[:, 0], cell).layers

    def features(
        self,
        hidden: Float[Tensor, "batch target hidden"],
        context: Float[Tensor, "batch target value"],
        embedded: Float[Tensor, "batch target embedding"],
    ) -> Float[Tensor, "batch target feature"]:
        """Return the features from which `projection` computes logits. A decoder without attention
        passes a context of size 0."""
        return self.dropout(self.output(hidden, context, embedded))
