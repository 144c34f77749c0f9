"""Recurrent encoders and decoders with and without attention.

    encoder    h_1 .. h_n = RNN(E x_1 .. E x_n)                        the memory: keys and values

    Bahdanau   c_t = attend(s_{t-1}, h)      s_t = RNN(s_{t-1}, [E y_{t-1}; c_t])
    Luong      s_t = RNN(s_{t-1}, [E y_{t-1}; fed_{t-1}])      c_t = attend(s_t, h)
    plain      s_t = RNN(s_{t-1}, E y_{t-1})                   no context

    features_t = output(s_t, c_t, E y_{t-1})      logits_t = W features_t

The score is whatever `attention` holds: who asks (the wiring) and how a question is scored are
different choices. Bahdanau, Cho and Bengio 2015; Luong, Pham and Manning 2015.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from regard.attention import Attended, Attention
from regard.attention.masks import padding
from regard.data.batch import Tokens
from regard.layers.dropout import Dropout
from regard.layers.recurrent import RecurrentStack
from regard.models.contracts import AttentionBlock, DecoderOutput, Encoded, Memory, Summary
from regard.models.feeding import ContextFeeding, Feeding
from regard.models.memory import only
from regard.models.recurrent_loops import can_read_at_once, read_at_once, read_stepwise
from regard.models.recurrent_parts import DecoderParts, PreparedMemory, RecurrentState
from regard.shapes import Float, Int, Tensor


class RecurrentEncoder(nn.Module):
    """Reads tokens in one or both directions. Its summary is the last state of every layer."""

    def __init__(
        self, embedding: nn.Embedding, stack: RecurrentStack, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.stack = stack

    def forward(self, source: Tokens, *, need_weights: bool = False) -> Encoded:
        """A recurrent encoder attends to nothing, so weights that are asked for are none."""
        del need_weights
        embedded = self.dropout(self.embedding(source.ids))
        read = self.stack.read(embedded, source.mask)
        return Encoded((embedded, *read.layers), source.mask, Summary(read.hidden, read.cell))


class BahdanauDecoder(nn.Module):
    """The previous state asks; the context and the embedded input enter the cell together."""

    def __init__(self, parts: DecoderParts, attention: Attention) -> None:
        super().__init__()
        self.parts = parts
        self.attention = attention

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if self.reads_at_once and not need_weights:
            return read_at_once(self.parts, self.attention, inputs, state, asks_first=True)
        return read_stepwise(self, inputs, state, need_weights)

    @property
    def reads_at_once(self) -> bool:
        """Whether a whole target is read by one operator, as long as no weights are asked for."""
        return can_read_at_once(self.parts, self.attention)

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        memory = only(memories)
        return self.parts.start(memory, _prepare(self.attention, memory))

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        attended = _attend(self.attention, state.hidden[:, :, -1], state, need_weights)
        hidden, state = self.parts.advance(torch.cat([embedded, attended.context], dim=-1), state)
        features = self.parts.features(hidden, attended.context, embedded)
        return _output(features, attended), replace(state, attention=attended.state)


class LuongDecoder(nn.Module):
    """The new state asks; state and context together make the output.

    Without feeding no state depends on a context, so a whole target is read by one run of the
    recurrent layers and one attention of all its positions at once."""

    def __init__(self, parts: DecoderParts, attention: Attention, feeding: Feeding) -> None:
        super().__init__()
        self.parts = parts
        self.attention = attention
        self.feeding = feeding

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if self.reads_at_once and not need_weights:
            return read_at_once(self.parts, self.attention, inputs, state, asks_first=False)
        if self.feeding.size:
            return read_stepwise(self, inputs, state, need_weights)
        embedded = self.parts.embed(inputs)
        hidden = self.parts.read(embedded, state)
        attended = _attend(self.attention, hidden, state, need_weights)
        return _output(self.parts.features(hidden, attended.context, embedded), attended)

    @property
    def reads_at_once(self) -> bool:
        """Whether a whole target is read by one operator, as long as no weights are asked for."""
        feeds_context = isinstance(self.feeding, ContextFeeding)
        return feeds_context and can_read_at_once(self.parts, self.attention)

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        memory = only(memories)
        return self.parts.start(memory, _prepare(self.attention, memory), self.feeding.size)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        hidden, state = self.parts.advance(torch.cat([embedded, state.fed], dim=-1), state)
        attended = _attend(self.attention, hidden, state, need_weights)
        features = self.parts.features(hidden, attended.context, embedded)
        fed = self.feeding(attended.context, features)
        return _output(features, attended), replace(state, fed=fed, attention=attended.state)


class PlainDecoder(nn.Module):
    """No attention: all it ever knows of the source is the summary it starts from (Sutskever,
    Vinyals and Le 2014). The baseline that shows what attention is worth."""

    def __init__(self, parts: DecoderParts) -> None:
        super().__init__()
        self.parts = parts

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        del need_weights
        embedded = self.parts.embed(inputs)
        hidden = self.parts.read(embedded, self.start(memories))
        return DecoderOutput(self.parts.features(hidden, hidden[..., :0], embedded))

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start(only(memories), None)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        del need_weights
        embedded = self.parts.embed(tokens)
        hidden, state = self.parts.advance(embedded, state)
        return DecoderOutput(self.parts.features(hidden, hidden[..., :0], embedded)), state


RecurrentDecoder = BahdanauDecoder | LuongDecoder | PlainDecoder


def _prepare(attention: Attention, memory: Memory) -> PreparedMemory:
    return PreparedMemory(attention.prepare(memory.keys), memory.values, padding(memory.mask))


def _attend(
    attention: Attention,
    queries: Float[Tensor, "batch target query"],
    state: RecurrentState,
    need_weights: bool,
) -> Attended:
    """Ask the memory. Target positions and hypotheses are one axis to it: the questions."""
    memory = state.memory
    if memory is None:
        raise ValueError("this state was started by a decoder without attention")
    return attention(
        queries,
        memory.prepared,
        memory.values,
        memory.mask,
        state.attention,
        need_weights=need_weights,
    )


def _output(features: Float[Tensor, "batch target feature"], attended: Attended) -> DecoderOutput:
    """Recurrent decoders have one layer and one head of attention."""
    if attended.weights is None or attended.scores is None:
        return DecoderOutput(features)
    block = AttentionBlock("cross", attended.weights[:, None, None], attended.scores[:, None, None])
    return DecoderOutput(features, (block,))
