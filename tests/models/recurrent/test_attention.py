"""Attention to several memories and to the decoder's own states, compared with loops in float64."""

from __future__ import annotations

import pytest
import torch

from regard.attention import Attention, ScaledDot
from regard.models.contracts import Memory
from regard.models.recurrent.attention import (
    CrossAttention,
    GatedAttention,
    IntraDecoderAttention,
    ParallelAttention,
    start_attention,
)
from regard.models.recurrent.queries import DecoderInputs, StateQuery

STATES = torch.randn(2, 5, 4, dtype=torch.float64)


def memory(length, seed):
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(2, length, 4, generator=generator, dtype=torch.float64)
    return Memory(keys, keys, torch.ones(2, length, dtype=torch.bool))


def asking(states):
    return DecoderInputs((states,), states)


def attended(query, keys):
    """Return scaled dot-product attention of one query (Vaswani et al. 2017, eq. 1)."""
    weights = torch.stack([query @ key / 2 for key in keys]).softmax(dim=0)
    return sum(weight * key for weight, key in zip(weights, keys, strict=True)), weights


def test_intra_attention_covers_states_before_the_query():
    look = IntraDecoderAttention(Attention(ScaledDot()), 4)
    whole = look(asking(STATES), None, need_weights=True, all_steps=True)
    state = start_attention(look, [memory(3, 1)])
    for step in range(5):
        result = look(asking(STATES[:, step : step + 1]), state, need_weights=True)
        state = result.state
        for row in range(2):
            context, weights = attended(STATES[row, step], STATES[row, : step + 1])
            torch.testing.assert_close(result.context[row, 0], context)
            torch.testing.assert_close(result.attention[0].weights[row, 0, 0, 0], weights)
            torch.testing.assert_close(whole.context[row, step], context)
    assert result.attention[0].kind == "decoder"


def test_selected_hypotheses_keep_their_decoded_states():
    look = IntraDecoderAttention(Attention(ScaledDot()), 4)
    first = look(asking(STATES[:, :2]), None).state  # two hypotheses
    index = torch.tensor([[1, 0, 1], [0, 0, 1]])
    state = first.select(torch.arange(2)[:, None], index)
    result = look(asking(STATES[:, 2:]), state)
    for row in range(2):
        for place in range(3):
            wrote = torch.stack([STATES[row, index[row, place]], STATES[row, 2 + place]])
            torch.testing.assert_close(result.context[row, place], attended(wrote[1], wrote)[0])


def test_a_gate_scales_the_context_by_a_function_of_the_state():
    """z = beta sum_i alpha_i a_i with beta = sigmoid(f(h)) (Xu et al. 2015, section 4.2.1)."""
    look = GatedAttention(CrossAttention(StateQuery(4), Attention(ScaledDot())), 4).double()
    cells = memory(6, 1)
    result = look(asking(STATES[:, :1]), start_attention(look, [cells]), need_weights=True)
    weight, bias = look.gate.weight[0], look.gate.bias[0]
    for row in range(2):
        state = STATES[row, 0]
        context, weights = attended(state, cells.keys[row])
        beta = 1 / (1 + torch.exp(-(weight @ state + bias)))
        torch.testing.assert_close(result.context[row, 0], beta * context)
        torch.testing.assert_close(result.attention[0].weights[row, 0, 0, 0], weights)


def test_several_contexts_are_concatenated():
    looks = [CrossAttention(StateQuery(4), Attention(ScaledDot())) for _ in range(2)]
    looks[1].kind = "memory"
    both = ParallelAttention([*looks, IntraDecoderAttention(Attention(ScaledDot()), 4)])
    memories = [memory(3, 1), memory(6, 2)]
    assert both.num_memories == 2
    result = both(asking(STATES[:, :1]), start_attention(both, memories), need_weights=True)
    for row in range(2):
        contexts = [attended(STATES[row, 0], each.keys[row])[0] for each in memories]
        torch.testing.assert_close(result.context[row, 0], torch.cat([*contexts, STATES[row, 0]]))
    assert [block.kind for block in result.attention] == ["cross", "memory", "decoder"]
    with pytest.raises(ValueError, match="memories: expected 2 memories, got 1"):
        start_attention(both, memories[:1])
