"""Local attention compared with the paper's formulas in plain loops, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention import General, LocalAttention, Monotonic, Predictive
from tests.messages import raises

BATCH, TARGET, SOURCE, SIZE, WIDTH = 2, 6, 9, 4, 2
LENGTHS = (9, 5)


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.fixture
def inputs():
    torch.manual_seed(5)
    mask = torch.arange(SOURCE) < torch.tensor(LENGTHS)[:, None]
    return drawn(BATCH, TARGET, SIZE), drawn(BATCH, SOURCE, SIZE), mask[:, None]


def expected(attention, queries, keys, row, step):
    """Return the weights of one query by Luong et al. 2015, section 3.2."""
    length, centre = LENGTHS[row], attention.centre
    query = queries[row, step]
    if isinstance(centre, Monotonic):
        middle = float(min(step, length - 1))
    else:
        hidden = torch.tanh(centre.hidden.weight @ query)
        middle = length / (1 + math.exp(-float((centre.vector.weight[0] @ hidden).detach())))
    scores = {
        place: float((query @ attention.score.key.weight @ keys[row, place]).detach())
        for place in range(length)
        if abs(place - middle) <= WIDTH
    }
    total = sum(math.exp(score) for score in scores.values())
    weights = [0.0] * SOURCE
    for place, score in scores.items():
        weights[place] = math.exp(score) / total
        if isinstance(centre, Predictive):
            weights[place] *= math.exp(-((place - middle) ** 2) / (2 * (WIDTH / 2) ** 2))
    return weights


@pytest.mark.parametrize("centre", [Monotonic(), Predictive(SIZE, 3, WIDTH)], ids=["m", "p"])
def test_weights_equal_the_papers_equations(inputs, centre):
    queries, keys, mask = inputs
    attention = LocalAttention(General(SIZE, SIZE), centre, WIDTH).double()
    result = attention(
        queries,
        attention.prepare(keys),
        keys,
        mask,
        attention.all_steps_state(queries),
        need_weights=True,
    )
    wanted = torch.tensor(
        [
            [expected(attention, queries, keys, row, step) for step in range(TARGET)]
            for row in range(BATCH)
        ],
        dtype=torch.float64,
    )
    torch.testing.assert_close(result.weights.detach(), wanted)
    torch.testing.assert_close(result.context.detach(), wanted @ keys)


def test_steps_continue_at_the_next_position(inputs):
    queries, keys, mask = inputs
    attention = LocalAttention(General(SIZE, SIZE), Monotonic(), WIDTH).double()
    prepared = attention.prepare(keys)
    whole = attention(queries, prepared, keys, mask, attention.all_steps_state(queries)).context
    state = attention.start(mask[:, 0])
    for step in range(TARGET):
        result = attention(queries[:, step : step + 1], prepared, keys, mask, state)
        torch.testing.assert_close(result.context[:, 0], whole[:, step])
        state = result.state


def test_every_weight_of_the_predicted_centre_has_a_gradient(inputs):
    queries, keys, mask = inputs
    attention = LocalAttention(General(SIZE, SIZE), Predictive(SIZE, 3, WIDTH), WIDTH).double()
    attention(queries, attention.prepare(keys), keys, mask).context.sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in attention.parameters())


def test_impossible_windows_are_rejected():
    with pytest.raises(ValueError, match="width is 0"):
        LocalAttention(General(SIZE, SIZE), Monotonic(), 0)
    attention = LocalAttention(General(SIZE, SIZE), Monotonic(), 1)
    with raises(ValueError):
        attention(
            torch.ones(1, 1, 4),
            torch.ones(1, 2, 4),
            torch.ones(1, 2, 4),
            torch.ones(1, 1, 2).bool(),
        )
