"""Attention of a recurrent decoder to its memories, or to its own earlier states.

    query      vector of the decoder that is compared with the keys             queries.py
    memory     keys, and values that are mixed                                  memory.py
    attention  scores, masks and weights, with their state between steps

`ParallelAttention` attends to several memories and concatenates their contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from regard.attention import CAUSAL, Attention, AttentionFunction, AttentionOutput
from regard.attention.masks import padding
from regard.models.contracts import AttentionBlock, Memory
from regard.models.memory import PreparedMemory
from regard.models.recurrent.queries import DecoderInputs, Query
from regard.names import AttentionKind
from regard.numerics.linear import Linear
from regard.shapes import Float, Int, Tensor


@runtime_checkable
class DecoderAttentionState(Protocol):
    """State of decoder attention between two steps. Immutable.

    Tensors of a hypothesis have axes batch and hypothesis first. The memory has one entry a
    sentence."""

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> DecoderAttentionState:
        """Return the state of these hypotheses of each sentence."""

    def keep(self, sentences: Int[Tensor, "kept"]) -> DecoderAttentionState:
        """Return the state of these sentences."""


@dataclass(frozen=True)
class DecoderAttentionOutput:
    """Context, attention weights (if `need_weights` was set) and state after the step."""

    context: Float[Tensor, "batch target value"]
    attention: tuple[AttentionBlock, ...]
    state: Any


@runtime_checkable
class DecoderAttention(Protocol):
    """Attention of a recurrent decoder, with its query and its memories."""

    @property
    def is_stateful(self) -> bool:
        """Whether a step needs the state of the step before, so that steps must run in order."""

    @property
    def num_memories(self) -> int:
        """Number of memories attended to: the first ones of the encoder."""

    def start(self, memories: Sequence[Memory]) -> DecoderAttentionState | None:
        """Return the state before the first step. Keys are projected here, once."""

    def __call__(
        self,
        inputs: DecoderInputs,
        state: Any,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        """Attend for every hypothesis of a step or, with `all_steps`, for every position of a
        target."""


def num_memories(attention: DecoderAttention) -> int:
    """Return the number of memories that a decoder with this attention takes. At least one: its
    summary initialises the state."""
    return max(attention.num_memories, 1)


def start_attention(
    attention: DecoderAttention, memories: Sequence[Memory]
) -> DecoderAttentionState | None:
    """Return the state before the first step. ValueError for another number of memories than the
    decoder takes."""
    expected = num_memories(attention)
    if len(memories) != expected:
        number = "one memory" if expected == 1 else f"{expected} memories"
        raise ValueError(f"memories: expected {number}, got {len(memories)}")
    return attention.start(memories[: attention.num_memories])


@dataclass(frozen=True)
class CrossAttentionState:
    """A prepared memory, and the states of query and attention, if they have one."""

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
    """Attention to one memory of the encoder."""

    num_memories = 1
    varies_in_batches = True

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
        inputs: DecoderInputs,
        state: CrossAttentionState,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        memory = state.memory
        queries, query_state = self.query(inputs, memory, state.query)
        output: AttentionOutput = self.attention(
            queries,
            memory.prepared,
            memory.values,
            memory.mask,
            self.attention.all_steps_state(queries) if all_steps else state.attention,
            need_weights=need_weights,
        )
        new_state = CrossAttentionState(memory, query_state, output.state)
        return DecoderAttentionOutput(output.context, _blocks(self.kind, output), new_state)


@dataclass(frozen=True)
class IntraDecoderState:
    """States of the decoder at all steps so far."""

    states: Float[Tensor, "batch hypothesis step hidden"]

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> IntraDecoderState:
        return IntraDecoderState(self.states[sentences, hypotheses])

    def keep(self, sentences: Int[Tensor, "kept"]) -> IntraDecoderState:
        return IntraDecoderState(self.states[sentences])


class IntraDecoderAttention(nn.Module):
    """Attention of the decoder to its own states, from the first up to the present one.

    Paulus et al. 2018, section 2.2, attend to the earlier states only; their first context is
    zeros."""

    num_memories = 0
    is_stateful = False
    varies_in_batches = True

    def __init__(self, attention: Attention, size: int) -> None:
        super().__init__()
        self.attention = attention
        self.size = size

    def start(self, memories: Sequence[Memory]) -> IntraDecoderState | None:
        """Return None: there are no states before the first step."""
        del memories
        return None

    def forward(
        self,
        inputs: DecoderInputs,
        state: IntraDecoderState | None,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        queries = inputs.layers[-1]
        if all_steps:
            prepared = self.attention.prepare(queries)
            # Paulus et al. 2018, section 2.2: c_t = sum over t' of a_tt' h_t'
            output = self.attention(queries, prepared, queries, CAUSAL, need_weights=need_weights)
            return DecoderAttentionOutput(output.context, _blocks("decoder", output), state)
        present = queries[:, :, None]
        states = present if state is None else torch.cat([state.states, present], dim=2)
        output = self.attention(
            present, self.attention.prepare(states), states, need_weights=need_weights
        )
        output = AttentionOutput(
            output.context[:, :, 0],
            None if output.weights is None else output.weights[:, :, 0],
            None if output.scores is None else output.scores[:, :, 0],
        )
        return DecoderAttentionOutput(
            output.context, _blocks("decoder", output), IntraDecoderState(states)
        )


@dataclass(frozen=True)
class ParallelState:
    """States of several attentions, in their order."""

    states: tuple[DecoderAttentionState | None, ...]

    def select(
        self, sentences: Int[Tensor, "batch 1"], hypotheses: Int[Tensor, "batch hypothesis"]
    ) -> ParallelState:
        return ParallelState(
            tuple(state and state.select(sentences, hypotheses) for state in self.states)
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> ParallelState:
        return ParallelState(tuple(state and state.keep(sentences) for state in self.states))


class GatedAttention(nn.Module):
    """Attention whose context is multiplied by a gate, sigmoid(w s + b) of the decoder's state (Xu
    et al. 2015, section 4.2.1)."""

    def __init__(self, attention: DecoderAttention, state_size: int) -> None:
        super().__init__()
        self.attention = attention
        self.gate = Linear(state_size, 1)

    @property
    def is_stateful(self) -> bool:
        return self.attention.is_stateful

    @property
    def num_memories(self) -> int:
        return self.attention.num_memories

    def start(self, memories: Sequence[Memory]) -> DecoderAttentionState | None:
        return self.attention.start(memories)

    def forward(
        self,
        inputs: DecoderInputs,
        state: Any,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        output = self.attention(inputs, state, need_weights=need_weights, all_steps=all_steps)
        # Xu et al. 2015, section 4.2.1: beta_t = sigmoid(f_beta(h_{t-1}))
        gate = torch.sigmoid(self.gate(inputs.layers[-1]))
        # Xu et al. 2015, section 4.2.1: phi({a_i}, {a_ti}) = beta_t sum_i a_ti a_i
        return replace(output, context=gate * output.context)


class ParallelAttention(nn.Module):
    """Several attentions, each with its own memories. Their contexts are concatenated in order."""

    def __init__(self, attentions: Sequence[DecoderAttention]) -> None:
        super().__init__()
        modules = nn.ModuleList(cast(Sequence[nn.Module], attentions))
        self.attentions = cast(Sequence[DecoderAttention], modules)

    @property
    def is_stateful(self) -> bool:
        return any(attention.is_stateful for attention in self.attentions)

    @property
    def num_memories(self) -> int:
        return sum(attention.num_memories for attention in self.attentions)

    def start(self, memories: Sequence[Memory]) -> ParallelState:
        rest, states = list(memories), []
        for attention in self.attentions:
            own, rest = rest[: attention.num_memories], rest[attention.num_memories :]
            states.append(attention.start(own))
        return ParallelState(tuple(states))

    def forward(
        self,
        inputs: DecoderInputs,
        state: ParallelState,
        *,
        need_weights: bool = False,
        all_steps: bool = False,
    ) -> DecoderAttentionOutput:
        outputs = [
            attention(inputs, own_state, need_weights=need_weights, all_steps=all_steps)
            for attention, own_state in zip(self.attentions, state.states, strict=True)
        ]
        return DecoderAttentionOutput(
            torch.cat([output.context for output in outputs], dim=-1),
            tuple(block for output in outputs for block in output.attention),
            replace(state, states=tuple(output.state for output in outputs)),
        )


def _blocks(kind: AttentionKind, output: AttentionOutput) -> tuple[AttentionBlock, ...]:
    """Return the weights as a block with one layer and one head; none without weights."""
    if output.weights is None or output.scores is None:
        return ()
    weights, scores = output.weights[:, None, None], output.scores[:, None, None]
    drawn = None if output.drawn is None else output.drawn[:, None, None]
    return (AttentionBlock(kind, weights, scores, drawn),)
