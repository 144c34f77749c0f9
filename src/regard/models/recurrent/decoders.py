"""Recurrent encoders and decoders with and without attention.

    encoder    h_1 .. h_n = RNN(E x_1 .. E x_n)                        the memory: keys and values

    Bahdanau   c_t = attend(s_{t-1}, h)      s_t = RNN(s_{t-1}, [E y_{t-1}; c_t])
    Luong      s_t = RNN(s_{t-1}, [E y_{t-1}; fed_{t-1}])      c_t = attend(s_t, h)
    plain      s_t = RNN(s_{t-1}, E y_{t-1})                   no context

    features_t = output(s_t, c_t, E y_{t-1})      logits_t = W features_t

Who asks when is the wiring; what is asked, of what, and how it is scored is whatever `look` holds:
different choices. Bahdanau, Cho and Bengio 2015; Luong, Pham and Manning 2015.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from regard.models.contracts import DecoderOutput, Memory
from regard.models.memory import single_memory
from regard.models.recurrent.attention import DecoderAttention, num_memories, start_attention
from regard.models.recurrent.feeding import ContextFeeding, Feeding
from regard.models.recurrent.parts import DecoderParts, RecurrentState
from regard.models.recurrent.queries import DecoderInputs
from regard.models.recurrent.unrolling import can_fuse, unroll, unroll_fused
from regard.shapes import Float, Int, Tensor


class BahdanauDecoder(nn.Module):
    """The previous state asks; the context and the embedded input enter the cell together."""

    def __init__(self, parts: DecoderParts, look: DecoderAttention) -> None:
        super().__init__()
        self.parts = parts
        self.look = look

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if self.is_fused:
            return unroll_fused(
                self.parts, self.look, inputs, state, attend_first=True, need_weights=need_weights
            )
        return unroll(self, inputs, state, need_weights)

    @property
    def is_fused(self) -> bool:
        """Whether a whole target is read by one operator."""
        return can_fuse(self.parts, self.look)

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    @property
    def num_memories(self) -> int:
        return num_memories(self.look)

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start(memories, start_attention(self.look, memories))

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        asking = DecoderInputs(state.hidden.unbind(dim=2), embedded)
        looked = self.look(asking, state.look, need_weights=need_weights)
        state = self.parts.advance(torch.cat([embedded, looked.context], dim=-1), state)
        features = self.parts.features(state.hidden[:, :, -1], looked.context, embedded)
        return DecoderOutput(features, looked.attention), replace(state, look=looked.state)


class LuongDecoder(nn.Module):
    """The new state asks; state and context together make the output.

    Without feeding no state depends on a context, so a whole target is read by one run of the
    recurrent layers and one look of all its positions at once, unless that remembers."""

    def __init__(self, parts: DecoderParts, look: DecoderAttention, feeding: Feeding) -> None:
        super().__init__()
        self.parts = parts
        self.look = look
        self.feeding = feeding

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if self.is_fused:
            return unroll_fused(
                self.parts, self.look, inputs, state, attend_first=False, need_weights=need_weights
            )
        if self.feeding.size or self.look.is_stateful:
            return unroll(self, inputs, state, need_weights)
        embedded = self.parts.embed(inputs)
        layers = self.parts.read(embedded, state)
        asking = DecoderInputs(layers, embedded)
        looked = self.look(asking, state.look, need_weights=need_weights, all_steps=True)
        features = self.parts.features(layers[-1], looked.context, embedded)
        return DecoderOutput(features, looked.attention)

    @property
    def is_fused(self) -> bool:
        """Whether a whole target is read by one operator."""
        return isinstance(self.feeding, ContextFeeding) and can_fuse(self.parts, self.look)

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    @property
    def num_memories(self) -> int:
        return num_memories(self.look)

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start(memories, start_attention(self.look, memories), self.feeding.size)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        state = self.parts.advance(torch.cat([embedded, state.fed], dim=-1), state)
        asking = DecoderInputs(state.hidden.unbind(dim=2), embedded)
        looked = self.look(asking, state.look, need_weights=need_weights)
        features = self.parts.features(asking.layers[-1], looked.context, embedded)
        fed = self.feeding(looked.context, features)
        return DecoderOutput(features, looked.attention), replace(state, fed=fed, look=looked.state)


class PlainDecoder(nn.Module):
    """No attention: all it ever knows of the source is the summary it starts from (Sutskever,
    Vinyals and Le 2014). The baseline that shows what attention is worth."""

    num_memories = 1

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
        hidden = self.parts.read(embedded, self.start(memories))[-1]
        return DecoderOutput(self.parts.features(hidden, hidden[..., :0], embedded))

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start((single_memory(memories),), None)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        del need_weights
        embedded = self.parts.embed(tokens)
        state = self.parts.advance(embedded, state)
        hidden = state.hidden[:, :, -1]
        return DecoderOutput(self.parts.features(hidden, hidden[..., :0], embedded)), state


RecurrentDecoder = BahdanauDecoder | LuongDecoder | PlainDecoder
