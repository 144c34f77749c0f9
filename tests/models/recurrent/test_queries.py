"""Queries of recurrent decoders, compared with slices by hand."""

from __future__ import annotations

import torch

from regard.models.memory import PreparedMemory
from regard.models.recurrent.queries import (
    DecoderInputs,
    InputQuery,
    LastTwoQuery,
    LearnedQuery,
    SamePositionQuery,
    StateQuery,
)

LAYERS = (torch.randn(2, 3, 4), torch.randn(2, 3, 4))
ASKING = DecoderInputs(LAYERS, torch.randn(2, 3, 5))
VALUES = torch.randn(2, 4, 6)
MEMORY = PreparedMemory(
    VALUES, VALUES, torch.tensor([[[True, True, True, True]], [[True, True, False, False]]])
)


def ask(query, remembered=None):
    result, after = query(ASKING, MEMORY, remembered)
    assert result.shape[-1] == query.size
    return result, after


def test_state_and_input_queries_are_unchanged():
    assert ask(StateQuery(4)) == (LAYERS[1], None)
    assert ask(StateQuery(4, layer=0)) == (LAYERS[0], None)
    assert ask(InputQuery(5)) == (ASKING.embedded, None)
    assert not any(each.is_stateful for each in (StateQuery(4), InputQuery(5), LearnedQuery(7)))


def test_a_learned_query_is_equal_at_all_positions():
    query = LearnedQuery(7)
    result, _ = ask(query)
    assert result.shape == (2, 3, 7)
    assert torch.equal(result[1, 2], query.vector)


def test_the_last_two_states_are_concatenated():
    query = LastTwoQuery(4)
    assert query.is_stateful
    first = query.start(MEMORY)
    assert first.shape == (2, 1, 4)
    assert not first.any()
    before = torch.randn(2, 3, 4)
    result, after = ask(query, before)
    assert torch.equal(result, torch.cat([LAYERS[1], before], dim=-1))
    assert torch.equal(after, LAYERS[1])


def test_the_query_is_the_source_state_at_the_same_position_or_the_last():
    query = SamePositionQuery(6)
    positions = torch.tensor([[0, 1, 5], [0, 1, 2]])
    result, after = ask(query, positions)
    assert torch.equal(result[0], VALUES[0, [0, 1, 3]])
    assert torch.equal(result[1], VALUES[1, [0, 1, 1]])
    assert torch.equal(after, positions + 1)
    assert not query.start(MEMORY).any()
