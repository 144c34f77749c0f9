"""Coverage and location compared with their formulas in plain loops, in float64."""

from __future__ import annotations

import pytest
import torch

from regard.attention import Coverage, HistoryAdditive, HistoryAttention, Location
from tests.attention.parts import HISTORIES, HISTORY_JUDGES

SOURCE, SIZE, STEPS = 7, 5, 4
LENGTHS = (7, 4)


def remembering(history):
    return HistoryAttention(HistoryAdditive(SIZE, SIZE, history))


@pytest.mark.parametrize("name", HISTORIES)
def test_each_step_depends_on_earlier_weights(name):
    torch.manual_seed(2)
    attention = remembering(HISTORIES[name](6)).double()
    score = attention.score
    features = HISTORY_JUDGES[name](score.history)
    queries = torch.randn(2, STEPS, SIZE, dtype=torch.float64)
    keys = torch.randn(2, SOURCE, SIZE, dtype=torch.float64)
    mask = torch.arange(SOURCE) < torch.tensor(LENGTHS)[:, None]
    prepared, state = attention.prepare(keys), attention.start(mask)
    before = [[], []]
    for step in range(STEPS):
        asked_queries = queries[:, step : step + 1]
        result = attention(asked_queries, prepared, keys, mask[:, None], state, need_weights=True)
        plain = attention(asked_queries, prepared, keys, mask[:, None], state)
        torch.testing.assert_close(plain.context, result.context)
        for row, length in enumerate(LENGTHS):
            scores = [
                score.vector
                @ torch.tanh(
                    score.query.weight @ queries[row, step]
                    + score.key.weight @ keys[row, place]
                    + score.key.bias
                    + torch.tensor(features(before[row], place), dtype=torch.float64)
                )
                for place in range(length)
            ]
            weights = torch.zeros(SOURCE, dtype=torch.float64)
            weights[:length] = torch.stack(scores).softmax(dim=0).detach()
            torch.testing.assert_close(result.weights[row, 0].detach(), weights)
            torch.testing.assert_close(result.context[row, 0].detach(), weights @ keys[row])
            before[row].append(weights)
        state = result.state
    if name == "coverage":
        torch.testing.assert_close(state.sum(dim=-1), torch.full_like(state[..., 0], STEPS))


def test_gradients_reach_the_history():
    attention = remembering(Location(6, filters=3, width=2))
    keys, mask = torch.randn(1, SOURCE, SIZE), torch.ones(1, SOURCE, dtype=torch.bool)
    state = attention.start(mask)
    for _ in range(2):
        result = attention(
            torch.randn(1, 1, SIZE), attention.prepare(keys), keys, mask[:, None], state
        )
        state = result.state
    result.context.sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in attention.parameters())


def test_several_steps_at_once_are_rejected():
    with pytest.raises(ValueError, match="computes one step at a time"):
        remembering(Coverage(6)).all_steps_state(torch.ones(1, 2, SIZE))


@pytest.mark.parametrize("kind", HISTORIES.values(), ids=HISTORIES)
def test_gradients_go_through_earlier_steps(kind):
    """Gradients equal numeric derivatives. A later context depends on the first query through the
    history only."""
    torch.manual_seed(3)
    attention = remembering(kind(6)).double()
    queries = torch.randn(2, 3, SIZE, dtype=torch.float64)
    keys = torch.randn(2, SOURCE, SIZE, dtype=torch.float64)
    prepared = attention.prepare(keys).detach()

    def last_context(first):
        state = None
        for query in (first, queries[:, 1:2], queries[:, 2:]):
            output = attention(query, prepared, keys, None, state)
            state = output.state
        return output.context

    first = queries[:, :1].clone().requires_grad_()
    assert torch.autograd.gradcheck(last_context, (first,))
    (gradient,) = torch.autograd.grad(last_context(first).square().sum(), first)
    assert float(gradient.abs().max()) > 0
