"""The decoder of the Transformer (Vaswani et al. 2017).

    y = dropout(sqrt(size) E target + positions)
    y = y + causal self-attention(y)
    y = y + cross-attention(y, memory)
    y = y + feed-forward(y), or a mixture of experts                      N times
    logits_t = W y_t

Each sum with its dropout and layer norm is a `Residual`.

In decoding, the tokens of all hypotheses of a sentence share one key-value cache, and `slots` are
the cache positions of the tokens of each hypothesis:

    position      0    1         2               hypothesis 0: the old cat     slots 0 2 3
    slots         0    1    2    3    4          hypothesis 1: the new car     slots 0 1 4
    tokens        the  new  old  cat  car

So hypotheses are extended, reordered and share their prefixes without copying a key.

Accelerated by `compiled/transformer/decoder.py`, equal in tests/compiled/test_native.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn

from regard.attention import (
    Causal,
    FullSpan,
    KVCache,
    MultiHeadAttention,
    MultiHeadOutput,
    MultiHeadSelfAttention,
    PreparedHeads,
    Rotate,
    Span,
    none_if_full,
    padding,
)
from regard.layers.embedder import Embedder
from regard.layers.residual import Residual
from regard.models.contracts import AttentionBlock, DecoderOutput, Memory
from regard.models.memory import single_memory
from regard.models.transformer.encoder import blocks_of_layers
from regard.names import AttentionKind
from regard.numerics.linear import Linear
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class DecoderArguments:
    """Arguments that all layers of a decoder share in one call: masks, and the rotation of queries
    and keys."""

    self_mask: Bool[Tensor, "#batch target slot"] | Causal | None
    memory_mask: Bool[Tensor, "batch 1 source"] | None
    rotate: Rotate
    need_weights: bool


@dataclass(frozen=True)
class DecoderLayerOutput:
    """Output of a decoder layer: states, key-value cache, and attention weights if requested."""

    states: Float[Tensor, "batch target size"]
    cache: KVCache
    self_attention: MultiHeadOutput
    cross_attention: MultiHeadOutput


class DecoderLayer(nn.Module):
    """Self-attention, then cross-attention to the memory, then a feed-forward network or
    experts."""

    def __init__(
        self,
        self_attention: MultiHeadSelfAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residuals: tuple[Residual, Residual, Residual],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.self_residual, self.cross_residual, self.feed_forward_residual = residuals

    def forward(
        self,
        states: Float[Tensor, "batch target size"],
        memory: PreparedHeads,
        shared: DecoderArguments,
        cache: KVCache,
    ) -> DecoderLayerOutput:
        """Compute the states of a target, or of one token of every hypothesis. The cache has the
        keys and values of the tokens before."""
        projected = self.self_attention.project(self.self_residual.before(states), shared.rotate)
        cache = cache.append(projected.prepared)
        self_attention = self.self_attention.heads(
            projected.queries, cache.prepared, shared.self_mask, need_weights=shared.need_weights
        )
        states = self.self_residual.after(states, self_attention.context)
        cross_attention = self.cross_attention(
            self.cross_residual.before(states),
            memory,
            shared.memory_mask,
            need_weights=shared.need_weights,
        )
        states = self.cross_residual.after(states, cross_attention.context)
        change = self.feed_forward(self.feed_forward_residual.before(states))
        states = self.feed_forward_residual.after(states, change)
        return DecoderLayerOutput(states, cache, self_attention, cross_attention)


@dataclass(frozen=True)
class TransformerState:
    """Key-value cache of every layer, and the slots of the tokens of every hypothesis in it.

    `memory` has the keys and values of the source, projected by each layer, one entry a
    sentence."""

    memory: tuple[PreparedHeads, ...]
    mask: Bool[Tensor, "batch 1 source"] | None
    caches: tuple[KVCache, ...]
    slots: Int[Tensor, "batch hypothesis position"]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> TransformerState:
        index = hypotheses[:, :, None].expand(-1, -1, self.slots.size(2))
        return replace(self, slots=self.slots.gather(1, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> TransformerState:
        return TransformerState(
            tuple(layer[sentences] for layer in self.memory),
            None if self.mask is None else self.mask[sentences],
            tuple(cache.keep(sentences) for cache in self.caches),
            self.slots[sentences],
        )

    def with_new_slots(self) -> TransformerState:
        """Return the state with one more slot for every hypothesis, for its next token."""
        batch, num_hypotheses, _ = self.slots.shape
        first = self.caches[0].length
        new = torch.arange(first, first + num_hypotheses, device=self.slots.device)
        new = new.expand(batch, -1)[:, :, None]
        return replace(self, slots=torch.cat([self.slots, new], dim=2))

    def visible(self, span: Span) -> Bool[Tensor, "batch hypothesis slot"] | None:
        """Return the mask of the slots that belong to the hypothesis and are within the span. None
        if all slots do."""
        slots = span.visible_slots(self.slots)
        batch, num_hypotheses, num_visible = slots.shape
        num_slots = self.caches[0].length + num_hypotheses
        if num_slots == num_visible:
            return None
        mask = torch.zeros(
            batch, num_hypotheses, num_slots, dtype=torch.bool, device=self.slots.device
        )
        return mask.scatter_(2, slots, True)


class TransformerDecoder(nn.Module):
    """Stack of decoder layers with one memory, and the projection to logits."""

    num_memories = 1

    varies_in_batches = True

    def __init__(
        self,
        embedder: Embedder,
        layers: Sequence[DecoderLayer],
        norm: nn.Module,
        kind: AttentionKind = "cross",
        span: Span | None = None,
    ) -> None:
        """`kind` is the name of the cross-attention: `image` for the cells of an image. `span` is
        the attention span of each position, by default all earlier positions. TypeError if the
        embedder has no token embedding."""
        super().__init__()
        self.kind = kind
        self.span = span or FullSpan()
        self.embedder = embedder
        self.layers = cast(Sequence[DecoderLayer], nn.ModuleList(layers))
        self.norm = norm
        embedding = embedder.embedding
        if not isinstance(embedding, nn.Embedding):
            raise TypeError(
                f"embedder: expected a decoder's token embedding, got {type(embedding).__name__}"
            )
        self.projection = Linear(embedding.embedding_dim, embedding.num_embeddings)
        nn.init.normal_(self.projection.weight, std=embedding.embedding_dim**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Compute all steps. Each position attends to those before it. Padding comes after real
        positions, so no real position attends to it."""
        state, positions = self.start(memories), range(inputs.size(1))
        visible = self.span.causal_mask(inputs)
        rotate = self.embedder.rotation(positions)
        shared = DecoderArguments(visible, state.mask, rotate, need_weights)
        features, outputs = self._layers(self.embedder(inputs, positions), state, shared)
        return DecoderOutput(features, _attention(self.kind, outputs))

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        # Vaswani et al. 2017, section 3.4: softmax(W y), with W = E if they are tied
        return self.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> TransformerState:
        memory = single_memory(memories)
        mask = none_if_full(memory.mask)
        prepared = [
            layer.cross_attention.prepare(memory.keys, memory.values) for layer in self.layers
        ]
        return TransformerState(
            tuple(prepared),
            None if mask is None else padding(mask),
            tuple(KVCache() for _ in self.layers),
            torch.empty(memory.mask.size(0), 1, 0, dtype=torch.long, device=memory.mask.device),
        )

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: TransformerState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, TransformerState]:
        position = state.slots.size(2)
        positions, state = range(position, position + 1), state.with_new_slots()
        rotate = self.embedder.rotation(positions)
        visible = state.visible(self.span)
        shared = DecoderArguments(visible, state.mask, rotate, need_weights)
        features, outputs = self._layers(self.embedder(tokens, positions), state, shared)
        slots = None if shared.self_mask is None else state.slots
        attention = _attention(self.kind, outputs, slots)
        caches = tuple(output.cache for output in outputs)
        return DecoderOutput(features, attention), replace(state, caches=caches)

    def _layers(
        self,
        states: Float[Tensor, "batch target size"],
        state: TransformerState,
        shared: DecoderArguments,
    ) -> tuple[Float[Tensor, "batch target size"], list[DecoderLayerOutput]]:
        """Return the states after the last norm, and the output of every layer."""
        outputs: list[DecoderLayerOutput] = []
        for layer, memory, cache in zip(self.layers, state.memory, state.caches, strict=True):
            outputs.append(layer(states, memory, shared, cache))
            states = outputs[-1].states
        return self.norm(states), outputs


def _attention(
    kind: AttentionKind,
    outputs: list[DecoderLayerOutput],
    slots: Int[Tensor, "batch hypothesis position"] | None = None,
) -> tuple[AttentionBlock, ...]:
    """Return the attention blocks of all layers, if weights were requested. With `slots`, gather
    the self-attention to each hypothesis's own slots, so that the source axis counts its
    positions."""
    cross_attention = blocks_of_layers(kind, [output.cross_attention for output in outputs])
    self_attention = blocks_of_layers("decoder", [output.self_attention for output in outputs])
    if not self_attention:
        return cross_attention
    if slots is None:
        return cross_attention + self_attention
    (block,) = self_attention
    index = slots[:, None, None].expand(*block.weights.shape[:3], -1, -1)
    scores = None if block.scores is None else block.scores.gather(4, index)
    block = AttentionBlock("decoder", block.weights.gather(4, index), scores)
    return (*cross_attention, block)
