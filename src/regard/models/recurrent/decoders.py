"""Recurrent decoders with and without attention.

    encoder    h_1 .. h_n = RNN(E x_1 .. E x_n)                        the memory: keys and values

    Bahdanau   c_t = attend(s_{t-1}, h)      s_t = RNN(s_{t-1}, [E y_{t-1}; c_t])
    Luong      s_t = RNN(s_{t-1}, [E y_{t-1}; fed_{t-1}])      c_t = attend(s_t, h)
    GNMT       as Bahdanau, with c_t as an input of every layer of the RNN (gnmt.py)
    plain      s_t = RNN(s_{t-1}, E y_{t-1})                   no context

    features_t = output(s_t, c_t, E y_{t-1})      logits_t = W features_t

The decoders differ in their wiring, the order of attention and state update. Query, memory and
score are those of the decoder attention, so any of them goes with any wiring. Bahdanau, Cho and
Bengio 2015; Luong, Pham and Manning 2015.

A query before the update reads the recurrent states, a query after it and the output layer read the
outputs of the layers. They are equal unless the stack adds something to its states.

Accelerated by `compiled/recurrent/decoders.py`, equal in tests/compiled/test_accelerate.py; single
steps by `compiled/recurrent/decoder.py`, equal in tests/compiled/test_native.py.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.models.contracts import DecoderOutput, Memory
from regard.models.memory import single_memory
from regard.models.recurrent.attention import DecoderAttention, start_attention
from regard.models.recurrent.bases import AttendingDecoder, ProjectingDecoder
from regard.models.recurrent.feeding import Feeding
from regard.models.recurrent.gnmt import GNMTDecoder
from regard.models.recurrent.parts import DecoderParts, RecurrentState
from regard.models.recurrent.queries import DecoderInputs
from regard.models.recurrent.unrolling import unroll
from regard.shapes import Int, Tensor


class BahdanauDecoder(AttendingDecoder):
    """Attention before the update (Bahdanau et al. 2015, section 3.1 and appendix A.1.2): the query
    is s_{t-1}, and the cell reads the embedded input and the context, [E y_{t-1}; c_t]."""

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        return unroll(self, inputs, self.start(memories), need_weights=need_weights)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        inputs = DecoderInputs(state.hidden.unbind(dim=2), embedded)
        # Bahdanau et al. 2015, section 3.1: e_ij = a(s_{i-1}, h_j)
        # Xu et al. 2015, eq. 4 (from memory) if task is caption: e_ti = f_att(a_i, h_{t-1})
        output = self.attention(inputs, state.attention, need_weights=need_weights)
        entering = torch.cat([embedded, output.context], dim=-1)
        # Bahdanau et al. 2015, section 3.1: s_i = f(s_{i-1}, y_{i-1}, c_i)
        # Xu et al. 2015, eq. 1 (from memory) if task is caption:
        #     gates of T (E y_{t-1}; h_{t-1}; z_t)
        state, layers = self.parts.advance(entering, state)
        # Bahdanau et al. 2015, eq. 4: p(y_i | y_1, .., y_{i-1}, x) = g(y_{i-1}, s_i, c_i)
        features = self.parts.features(layers.top, output.context, embedded)
        return DecoderOutput(features, output.attention), replace(state, attention=output.state)


class LuongDecoder(AttendingDecoder):
    """The new state is the query. The output is computed from state and context.

    Without feeding no state depends on a context. Then a target needs one run of the recurrent
    layers and one call of the attention for all positions, unless the attention is stateful."""

    def __init__(self, parts: DecoderParts, attention: DecoderAttention, feeding: Feeding) -> None:
        super().__init__(parts, attention)
        self.feeding = feeding

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if self.feeding.size or self.attention.is_stateful:
            return unroll(self, inputs, state, need_weights=need_weights)
        embedded = self.parts.embed(inputs)
        # Luong et al. 2015, eq. 3 (from memory), all steps: h_j = f(h_{j-1}, s)
        layers = self.parts.run_layers(embedded, state)
        # Luong et al. 2015, section 3.1, all steps: a_t(s) = align(h_t, h_s)
        output = self.attention(
            DecoderInputs(layers.outputs, embedded),
            state.attention,
            need_weights=need_weights,
            all_steps=True,
        )
        features = self.parts.features(layers.top, output.context, embedded)
        return DecoderOutput(features, output.attention)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start(
            memories, start_attention(self.attention, memories), self.feeding.size
        )

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        # Luong et al. 2015, section 3.3 if feeding is attentional: [E y_{t-1}; h~_{t-1}]
        entering = torch.cat([embedded, state.fed], dim=-1)
        # Luong et al. 2015, eq. 3 (from memory): h_j = f(h_{j-1}, s)
        state, layers = self.parts.advance(entering, state)
        inputs = DecoderInputs(layers.outputs, embedded)
        # Luong et al. 2015, section 3.1: a_t(s) = align(h_t, h_s)
        output = self.attention(inputs, state.attention, need_weights=need_weights)
        features = self.parts.features(layers.top, output.context, embedded)
        state = replace(state, fed=self.feeding(output.context, features), attention=output.state)
        return DecoderOutput(features, output.attention), state


class PlainDecoder(ProjectingDecoder):
    """Decoder without attention (Sutskever, Vinyals and Le 2014): a baseline. The summary, from
    which it starts, is all that it gets of the source."""

    num_memories = 1

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        del need_weights  # there is no attention
        embedded = self.parts.embed(inputs)
        # Sutskever et al. 2014, eq. 1 (from memory): p(y | x) = prod_t p(y_t | v, y_1, .., y_{t-1})
        layers = self.parts.run_layers(embedded, self.start(memories))
        features = self.parts.features(layers.top, layers.top[..., :0], embedded)
        return DecoderOutput(features)

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
        state, layers = self.parts.advance(embedded, state)
        features = self.parts.features(layers.top, layers.top[..., :0], embedded)
        return DecoderOutput(features), state


RecurrentDecoder = BahdanauDecoder | LuongDecoder | GNMTDecoder | PlainDecoder
