"""Decoder of GNMT (Wu et al. 2016, sections 3 and 3.1).

    c_t = attend(s^1_{t-1}, h)                       query: state of the lowest layer
    s^1_t = RNN^1(s^1_{t-1}, [E y_{t-1}; c_t])
    s^k_t = RNN^k(s^k_{t-1}, [x^{k-1}_t; c_t])       the context enters every layer
    features_t = output(x^K_t, c_t, E y_{t-1})

x are the outputs of the layers: s, or sums with residual connections. Any query is possible; with
that of the paper, contexts depend on the lowest layer alone. Then the lowest layer is computed
first, step by step, and every layer above it for all positions in one call.

Accelerated by `compiled/recurrent/decoders.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.models.contracts import DecoderOutput, Memory
from regard.models.recurrent.bases import AttendingDecoder
from regard.models.recurrent.parts import RecurrentState
from regard.models.recurrent.queries import DecoderInputs
from regard.models.recurrent.unrolling import unroll
from regard.shapes import Int, Tensor


class GNMTDecoder(AttendingDecoder):
    """Attention before the update, with the context as an input of every layer."""

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
        # Wu et al. 2016, eq. 4 (from memory): a_i = sum_t p_t x_t, p = softmax(s_1, .., s_M)
        output = self.attention(inputs, state.attention, need_weights=need_weights)
        context = output.context
        entering = torch.cat([embedded, context], dim=-1)
        # Wu et al. 2016, section 3: every layer reads the context, [x_t^{i-1}; a_t]
        state, layers = self.parts.advance(entering, state)
        features = self.parts.features(layers.top, context, embedded)
        return DecoderOutput(features, output.attention), replace(state, attention=output.state)
