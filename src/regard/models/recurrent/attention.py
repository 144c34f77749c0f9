"""Looking: a recurrent decoder puts a query to a memory, or to what it has written itself.

    query      what is asked, of all that the decoder has at hand             queries.py
    memory     what it is compared with (keys) and what is mixed (values)     memory.py
    attention  scores, masks, weights; and what these remember of the step before

A decoder that looks at several things has one look that is made of several; their contexts stand
side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from regard.attention import CAUSAL, Attention, AttentionFunction, AttentionOutput
from regard.attention.masks import padding
from regard.linear import Linear
from regard.models.contracts import AttentionBlock, Memory
from regard.models.memory import PreparedMemory
from regard.models.recurrent.queries import DecoderInputs, Query
from regard.names import AttentionKind
from regard.shapes import Float, Int, Tensor


@runtime_checkable
class DecoderAttentionState(Protocol):
    """What a look keeps between steps. Immutable. What belongs to a hypothesis has the axes batch
    and hypothesis first; the memory is there once a sentence."""

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> DecoderAttentionState:
        """Go on from these hypotheses of each sentence."""

    def keep(self, sentences: Int[Tensor, "kept"]) -> DecoderAttentionState:
        """Go on with these sentences only."""


@dataclass(frozen=True)
class DecoderAttentionOutput:
    """What a look gives: the context, who looked at what where that was asked for, and its state
    after it."""

    context: Float[Tensor, "batch target value"]
    attention: tuple[AttentionBlock, ...]
    state: Any


@runtime_checkable
class DecoderAttention(Protocol):
    """How a decoder looks."""

    @property
    def is_stateful(self) -> bool:
        """Whether a step needs the state of the step before, so that steps must run in order."""

    @property
    def num_memories(self) -> int:
        """How many of an encoder's memories it takes, in their order."""

    def start(self, memories: Sequence[Memory]) -> DecoderAttentionState | None:
        """Before the first step. Keys are projected here, once."""

    def __call__(
        self,
        asking: DecoderInputs,
        state: Any,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        """Attend for every hypothesis of a step or, with `all_steps`, for every position of a
        target."""


def num_memories(look: DecoderAttention) -> int:
    """How many a decoder with this look is given: even who looks at none starts from the summary of
    one."""
    return max(look.num_memories, 1)


def start_attention(
    look: DecoderAttention, memories: Sequence[Memory]
) -> DecoderAttentionState | None:
    """A look's state before the first step. ValueError for another number of memories than it
    takes."""
    wanted = num_memories(look)
    if len(memories) != wanted:
        number = "one memory" if wanted == 1 else f"{wanted} memories"
        raise ValueError(f"expected to look at {number}, but {len(memories)} came")
    return look.start(memories[: look.num_memories])


@dataclass(frozen=True)
class CrossAttentionState:
    """A memory, and what query and attention remember, if they do."""

    memory: PreparedMemory
    query: Any = None
    attention: Any = None

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> CrossAttentionState:
        if self.query is None and self.attention is None:
            return self
        return CrossAttentionState(
            self.memory,
            None if self.query is None else self.query[sentences, hypotheses],
            None if self.attention is None else self.attention[sentences, hypotheses],
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> CrossAttentionState:
        return CrossAttentionState(
            self.memory.keep(sentences),
            None if self.query is None else self.query[sentences],
            None if self.attention is None else self.attention[sentences],
        )


class CrossAttention(nn.Module):
    """One query to one memory of the encoder's."""

    num_memories = 1

    def __init__(
        self, query: Query, attention: AttentionFunction, kind: AttentionKind = "cross"
    ) -> None:
        super().__init__()
        self.query = query
        self.attention = attention
        self.kind = kind

    @property
    def is_stateful(self) -> bool:
        return self.query.is_stateful or self.attention.is_stateful

    def start(self, memories: Sequence[Memory]) -> CrossAttentionState:
        (memory,) = memories
        prepared = PreparedMemory(
            self.attention.prepare(memory.keys), memory.values, padding(memory.mask)
        )
        return CrossAttentionState(
            prepared, self.query.start(prepared), self.attention.start(memory.mask)
        )

    def forward(
        self,
        asking: DecoderInputs,
        state: CrossAttentionState,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        memory = state.memory
        queries, asked = self.query(asking, memory, state.query)
        attended: AttentionOutput = self.attention(
            queries,
            memory.prepared,
            memory.values,
            memory.mask,
            self.attention.positions(queries) if all_steps else state.attention,
            need_weights=need_weights,
        )
        after = CrossAttentionState(memory, asked, attended.state)
        return DecoderAttentionOutput(attended.context, _blocks(self.kind, attended), after)


@dataclass(frozen=True)
class IntraDecoderState:
    """All states that asked so far."""

    states: Float[Tensor, "batch hypothesis written hidden"]

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> IntraDecoderState:
        return IntraDecoderState(self.states[sentences, hypotheses])

    def keep(self, sentences: Int[Tensor, "kept"]) -> IntraDecoderState:
        return IntraDecoderState(self.states[sentences])


class IntraDecoderAttention(nn.Module):
    """The decoder looks at its own states, from the first up to the one that asks (intra-decoder
    attention, Paulus et al. 2018, section 2.2): self-attention over what was written."""

    num_memories = 0
    is_stateful = False

    def __init__(self, attention: Attention, size: int) -> None:
        super().__init__()
        self.attention = attention
        self.size = size

    def start(self, memories: Sequence[Memory]) -> IntraDecoderState | None:
        """Nothing is written yet."""
        del memories
        return None

    def forward(
        self,
        asking: DecoderInputs,
        state: IntraDecoderState | None,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        queries = asking.layers[-1]
        if all_steps:
            prepared = self.attention.prepare(queries)
            attended = self.attention(queries, prepared, queries, CAUSAL, need_weights=need_weights)
            return DecoderAttentionOutput(attended.context, _blocks("decoder", attended), state)
        here = queries[:, :, None]
        states = here if state is None else torch.cat([state.states, here], dim=2)
        attended = self.attention(
            here, self.attention.prepare(states), states, need_weights=need_weights
        )
        attended = AttentionOutput(
            attended.context[:, :, 0],
            None if attended.weights is None else attended.weights[:, :, 0],
            None if attended.scores is None else attended.scores[:, :, 0],
        )
        return DecoderAttentionOutput(
            attended.context, _blocks("decoder", attended), IntraDecoderState(states)
        )


@dataclass(frozen=True)
class ParallelState:
    """What each of several looks keeps."""

    states: tuple[DecoderAttentionState | None, ...]

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> ParallelState:
        return ParallelState(
            tuple(each and each.select(sentences, hypotheses) for each in self.states)
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> ParallelState:
        return ParallelState(tuple(each and each.keep(sentences) for each in self.states))


class GatedAttention(nn.Module):
    """A look whose context is multiplied by a number that the decoder's state says: how much the
    next word is to come of what is seen (Xu et al. 2015, section 4.2.1)."""

    def __init__(self, look: DecoderAttention, state_size: int) -> None:
        super().__init__()
        self.look = look
        self.gate = Linear(state_size, 1)

    @property
    def is_stateful(self) -> bool:
        return self.look.is_stateful

    @property
    def num_memories(self) -> int:
        return self.look.num_memories

    def start(self, memories: Sequence[Memory]) -> DecoderAttentionState | None:
        return self.look.start(memories)

    def forward(
        self,
        asking: DecoderInputs,
        state: Any,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        looked = self.look(asking, state, need_weights=need_weights, all_steps=all_steps)
        share = torch.sigmoid(self.gate(asking.layers[-1]))
        return replace(looked, context=share * looked.context)


class ParallelAttention(nn.Module):
    """Several looks, each at its own memory; contexts stand side by side, in their order."""

    def __init__(self, looks: Sequence[DecoderAttention]) -> None:
        super().__init__()
        self.looks = cast(
            Sequence[DecoderAttention], nn.ModuleList(cast(Sequence[nn.Module], looks))
        )

    @property
    def is_stateful(self) -> bool:
        return any(look.is_stateful for look in self.looks)

    @property
    def num_memories(self) -> int:
        return sum(look.num_memories for look in self.looks)

    def start(self, memories: Sequence[Memory]) -> ParallelState:
        rest, states = list(memories), []
        for look in self.looks:
            own, rest = rest[: look.num_memories], rest[look.num_memories :]
            states.append(look.start(own))
        return ParallelState(tuple(states))

    def forward(
        self,
        asking: DecoderInputs,
        state: ParallelState,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        found = [
            look(asking, each, need_weights=need_weights, all_steps=all_steps)
            for look, each in zip(self.looks, state.states, strict=True)
        ]
        return DecoderAttentionOutput(
            torch.cat([each.context for each in found], dim=-1),
            tuple(block for each in found for block in each.attention),
            replace(state, states=tuple(each.state for each in found)),
        )


def _blocks(kind: AttentionKind, attended: AttentionOutput) -> tuple[AttentionBlock, ...]:
    """Recurrent decoders have one layer and one head of attention in every look."""
    if attended.weights is None or attended.scores is None:
        return ()
    weights, scores = attended.weights[:, None, None], attended.scores[:, None, None]
    drawn = None if attended.drawn is None else attended.drawn[:, None, None]
    return (AttentionBlock(kind, weights, scores, drawn),)
