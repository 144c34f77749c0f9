"""The Transformer: attention and nothing else (Vaswani et al. 2017).

    encoder   x = dropout(sqrt(size) E source + positions)
              x = x + self-attention(x), x + feed-forward(x)                        N times

    decoder   y = dropout(sqrt(size) E target + positions)
              y = y + causal self-attention(y), y + cross-attention(y, memory),
                  y + feed-forward(y)                                               N times
    logits_t  W y_t

Each sum with its dropout and its layer norm, before or after, is a `Residual`. Any score of
`attention` may serve the heads. Positions are added to embeddings or turn queries and keys.

While it writes, a decoder looks at the keys and values of all that its beam has written, one
attention a sentence; `slots` says which of them are a hypothesis's own:

    position      0    1         2               hypothesis 0: the old cat     slots 0 2 3
    slots         0    1    2    3    4          hypothesis 1: the new car     slots 0 1 4
    written       the  new  old  cat  car

So that hypotheses go on, change places and share their past without a copy of any key.
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
    Mask,
    MultiHeadAttention,
    MultiHeadOutput,
    MultiHeadSelfAttention,
    PreparedHeads,
    Rotate,
    Span,
    none_if_full,
    padding,
)
from regard.data.batch import Numbers, Tokens
from regard.layers.embedder import Embedder
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import Residual
from regard.linear import Linear
from regard.models.contracts import AttentionBlock, DecoderOutput, Encoded, Memory
from regard.models.memory import single_memory
from regard.names import AttentionKind
from regard.shapes import Bool, Float, Int, Tensor


class EncoderLayer(nn.Module):
    """Every position looks at all others, then thinks by itself."""

    def __init__(
        self,
        self_attention: MultiHeadSelfAttention,
        feed_forward: FeedForward,
        residuals: tuple[Residual, Residual],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_self, self.around_feed_forward = residuals

    def forward(
        self,
        states: Float[Tensor, "batch source size"],
        mask: Mask | None,
        turn: Rotate,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch source size"], MultiHeadOutput]:
        read = self.around_self.before(states)
        looked = self.self_attention(read, mask, turn, need_weights=need_weights)
        states = self.around_self.after(states, looked.context)
        change = self.feed_forward(self.around_feed_forward.before(states))
        return self.around_feed_forward.after(states, change), looked


class TransformerEncoder(nn.Module):
    """A stack of layers; `norm` ends it where norms come before sublayers, else it does nothing."""

    def __init__(
        self,
        embedder: Embedder,
        layers: Sequence[EncoderLayer],
        norm: nn.Module,
        span: Span | None = None,
    ) -> None:
        """`span` is how far positions see; without it, everything."""
        super().__init__()
        self.span = span or FullSpan()
        self.embedder = embedder
        self.layers = cast(Sequence[EncoderLayer], nn.ModuleList(layers))
        self.norm = norm

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """The embeddings and every layer's states, the last of them after the norm."""
        at = range(source.inputs.size(1))
        mask = none_if_full(source.mask)
        turn = self.embedder.turn(at)
        states = [self.embedder(source.inputs, at)]
        seen = self.span.bidirectional_mask(None if mask is None else padding(mask), states[0])
        looked = []
        for layer in self.layers:
            above, attended = layer(states[-1], seen, turn, need_weights=need_weights)
            states.append(above)
            looked.append(attended)
        states[-1] = self.norm(states[-1])
        return Encoded(tuple(states), source.mask, attention=_blocks("encoder", looked))


@dataclass(frozen=True)
class AttentionInputs:
    """What the layers of a decoder share in one reading: which of their own positions and of the
    memory may be seen, and what positions do to queries and keys."""

    own: Bool[Tensor, "#batch target slot"] | Causal | None
    memory: Bool[Tensor, "batch 1 source"] | None
    turn: Rotate
    need_weights: bool


@dataclass(frozen=True)
class LayerOutput:
    """States, all of its own that was written up to here, and who looked at what."""

    states: Float[Tensor, "batch target size"]
    written: KVCache
    own: MultiHeadOutput
    cross: MultiHeadOutput


class DecoderLayer(nn.Module):
    """Every position looks at what is written, then at the memory, then thinks by itself."""

    def __init__(
        self,
        self_attention: MultiHeadSelfAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        residuals: tuple[Residual, Residual, Residual],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_self, self.around_cross, self.around_feed_forward = residuals

    def forward(
        self,
        states: Float[Tensor, "batch target size"],
        memory: PreparedHeads,
        sight: AttentionInputs,
        written: KVCache,
    ) -> LayerOutput:
        """Read a target, or one token of every hypothesis, after what is `written`."""
        asking = self.self_attention.project(self.around_self.before(states), sight.turn)
        written = written.append(asking.prepared)
        own = self.self_attention.heads(
            asking.queries, written.prepared, sight.own, need_weights=sight.need_weights
        )
        states = self.around_self.after(states, own.context)
        cross = self.cross_attention(
            self.around_cross.before(states), memory, sight.memory, need_weights=sight.need_weights
        )
        states = self.around_cross.after(states, cross.context)
        change = self.feed_forward(self.around_feed_forward.before(states))
        return LayerOutput(self.around_feed_forward.after(states, change), written, own, cross)


@dataclass(frozen=True)
class TransformerState:
    """What was written, as every layer's keys and values in slots, and whose they are.

    `memory` is each layer's own projection of what the encoder made, once a sentence."""

    memory: tuple[PreparedHeads, ...]
    mask: Bool[Tensor, "batch 1 source"] | None
    written: tuple[KVCache, ...]
    slots: Int[Tensor, "batch hypothesis position"]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> TransformerState:
        index = hypotheses[:, :, None].expand(-1, -1, self.slots.size(2))
        return replace(self, slots=self.slots.gather(1, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> TransformerState:
        return TransformerState(
            tuple(each[sentences] for each in self.memory),
            None if self.mask is None else self.mask[sentences],
            tuple(each.keep(sentences) for each in self.written),
            self.slots[sentences],
        )

    def with_new_slots(self) -> TransformerState:
        """One more slot, that is about to be written, for every hypothesis."""
        batch, num_hypotheses, _ = self.slots.shape
        first = self.written[0].length
        new = torch.arange(first, first + num_hypotheses, device=self.slots.device)
        new = new.expand(batch, -1)[:, :, None]
        return replace(self, slots=torch.cat([self.slots, new], dim=2))

    def seen(self, span: Span) -> Bool[Tensor, "batch hypothesis slot"] | None:
        """Which slots are a hypothesis's own, and not too far behind; None where all are."""
        slots = span.visible_slots(self.slots)
        batch, num_hypotheses, num_seen = slots.shape
        num_slots = self.written[0].length + num_hypotheses
        if num_slots == num_seen:
            return None
        mask = torch.zeros(
            batch, num_hypotheses, num_slots, dtype=torch.bool, device=self.slots.device
        )
        return mask.scatter_(2, slots, True)


class TransformerDecoder(nn.Module):
    """A stack of layers that looks at one memory, and the logits of what is next."""

    num_memories = 1

    def __init__(
        self,
        embedder: Embedder,
        layers: Sequence[DecoderLayer],
        norm: nn.Module,
        kind: AttentionKind = "cross",
        span: Span | None = None,
    ) -> None:
        """`kind` is what looking at the memory is called: `image` for cells of a picture. `span`
        is how far back positions see what is written; without it, everything."""
        super().__init__()
        self.kind = kind
        self.span = span or FullSpan()
        self.embedder = embedder
        self.layers = cast(Sequence[DecoderLayer], nn.ModuleList(layers))
        self.norm = norm
        embedding = embedder.embedding
        if not isinstance(embedding, nn.Embedding):
            raise TypeError("a decoder reads tokens: expected an embedding of them")
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
        """All positions at once, each of which sees those before it. Padding comes after what is
        real, so that nothing real sees it."""
        state, at = self.start(memories), range(inputs.size(1))
        own = self.span.causal_mask(inputs)
        sight = AttentionInputs(own, state.mask, self.embedder.turn(at), need_weights)
        features, outputs = self._read(self.embedder(inputs, at), state, sight)
        return DecoderOutput(features, _attention(self.kind, outputs))

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
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
        at, state = range(position, position + 1), state.with_new_slots()
        sight = AttentionInputs(
            state.seen(self.span), state.mask, self.embedder.turn(at), need_weights
        )
        features, outputs = self._read(self.embedder(tokens, at), state, sight)
        slots = None if sight.own is None else state.slots
        attention = _attention(self.kind, outputs, slots)
        written = tuple(output.written for output in outputs)
        return DecoderOutput(features, attention), replace(state, written=written)

    def _read(
        self,
        states: Float[Tensor, "batch target size"],
        state: TransformerState,
        sight: AttentionInputs,
    ) -> tuple[Float[Tensor, "batch target size"], list[LayerOutput]]:
        outputs: list[LayerOutput] = []
        for layer, memory, before in zip(self.layers, state.memory, state.written, strict=True):
            outputs.append(layer(states, memory, sight, before))
            states = outputs[-1].states
        return self.norm(states), outputs


def _attention(
    kind: AttentionKind,
    outputs: list[LayerOutput],
    slots: Int[Tensor, "batch hypothesis position"] | None = None,
) -> tuple[AttentionBlock, ...]:
    """What a decoder looked at, where that was asked for; at its own slots as at positions."""
    cross = _blocks(kind, [output.cross for output in outputs])
    own = _blocks("decoder", [output.own for output in outputs])
    if slots is None or not own:
        return cross + own
    (block,) = own
    index = slots[:, None, None].expand(*block.weights.shape[:3], -1, -1)
    scores = None if block.scores is None else block.scores.gather(4, index)
    return (*cross, AttentionBlock("decoder", block.weights.gather(4, index), scores))


def _blocks(kind: AttentionKind, looked: list[MultiHeadOutput]) -> tuple[AttentionBlock, ...]:
    """One block of all layers, or none where weights were not asked for."""
    weights = [each.weights for each in looked if each.weights is not None]
    scores = [each.scores for each in looked if each.scores is not None]
    if not weights:
        return ()
    return (AttentionBlock(kind, torch.stack(weights, dim=1), torch.stack(scores, dim=1)),)
