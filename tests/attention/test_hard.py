"""Hard attention: drawn positions in training, the most probable position in evaluation, and the
gradient of the straight-through estimator."""

from __future__ import annotations

import pytest
import torch

from regard.attention import (
    Attention,
    HardAttention,
    ScaledDot,
    Softmax,
    StraightThroughAttention,
)
from regard.attention.hard import NOWHERE

KEYS = torch.randn(2, 5, 4)
QUERIES = torch.randn(2, 3, 4)
MASK = torch.tensor([[[True] * 5], [[True] * 3 + [False] * 2]])


@pytest.mark.parametrize("kind", [HardAttention, StraightThroughAttention])
def test_in_evaluation_the_most_probable_position_is_selected(kind):
    """The weights are those of the context: 1 at this position. The scores are of all positions."""
    soft = Attention(ScaledDot())
    probable = soft(QUERIES, soft.prepare(KEYS), KEYS, MASK, need_weights=True)
    attention = kind(soft).eval()
    result = attention(QUERIES, attention.prepare(KEYS), KEYS, MASK, need_weights=True)
    for row in range(2):
        for step in range(3):
            place = int(probable.weights[row, step].argmax())
            assert torch.equal(result.context[row, step], KEYS[row, place])
            assert result.drawn[row, step] == place
            assert result.weights[row, step].tolist() == [float(n == place) for n in range(5)]
    assert torch.equal(result.scores, probable.scores)
    assert torch.equal(result.weights @ KEYS, result.context)
    assert not result.drawn[1].gt(2).any()
    assert attention(QUERIES, attention.prepare(KEYS), KEYS, MASK).weights is None


def test_positions_are_sampled_by_their_weights():
    torch.manual_seed(3)
    attention = HardAttention(Attention(ScaledDot())).train()
    many = QUERIES[:1].expand(4000, -1, -1)
    keys = KEYS[:1].expand(4000, -1, -1)
    softened = attention.all_steps_state(many)
    result = attention(many, attention.prepare(keys), keys, None, softened, need_weights=True)
    hard = result.drawn[:, 0] != NOWHERE
    assert 0.45 < hard.float().mean() < 0.55
    assert torch.equal(hard, ~softened[:, 0])
    places = result.drawn[hard][:, 0]
    frequencies = torch.bincount(places, minlength=5) / len(places)
    torch.testing.assert_close(frequencies, result.weights[0, 0], atol=0.03, rtol=0)
    torch.testing.assert_close(result.context[hard][:, 0], KEYS[0, places])
    soft = result.weights[0] @ KEYS[0]
    torch.testing.assert_close(result.context[~hard][0], soft)


def test_a_source_is_hard_or_soft_for_all_steps():
    torch.manual_seed(3)
    attention = HardAttention(Attention(ScaledDot())).train()
    queries, keys = torch.randn(11, 5, 4), torch.randn(11, 5, 4)
    prepared, state = attention.prepare(keys), attention.start(torch.ones(11, 5).bool())
    softened, steps = state, []
    for step in range(5):
        asked_queries = queries[:, step : step + 1]
        result = attention(asked_queries, prepared, keys, None, state, need_weights=True)
        state = result.state
        steps.append(result.drawn[:, 0] == NOWHERE)
    assert torch.equal(torch.stack(steps, dim=1), softened.expand(-1, 5))
    assert softened.any()
    assert not softened.all()
    assert attention.eval().start(torch.ones(11, 5).bool()) is None


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_share_of_expected_contexts(share):
    torch.manual_seed(3)
    attention = HardAttention(Attention(ScaledDot()), share).train()
    softened = attention.start(torch.ones(4000, 5).bool())
    assert softened.float().mean() == pytest.approx(share, abs=0.02 if 0 < share < 1 else 0)
    assert attention.all_steps_state(QUERIES).shape == (2, 1)


def test_sampling_uses_the_temperature():
    sharp = HardAttention(Attention(ScaledDot(), Softmax(0.1))).train()
    result = sharp(QUERIES, sharp.prepare(KEYS), KEYS, need_weights=True)
    expected = (QUERIES @ KEYS.mT / 4**0.5 / 0.1).softmax(dim=-1)
    torch.testing.assert_close(result.weights, expected)


@pytest.mark.parametrize("kind", [HardAttention, StraightThroughAttention])
def test_a_fully_masked_query_has_a_zero_context_and_zero_weights(kind):
    attention = kind(Attention(ScaledDot()))
    nothing = torch.zeros(2, 1, 5, dtype=torch.bool)
    for mode in (True, False):
        attention.train(mode)
        result = attention(QUERIES, attention.prepare(KEYS), KEYS, nothing, need_weights=True)
        assert not result.context.any()
        assert not result.weights.any()


def test_the_straight_through_gradient_is_that_of_the_mean_for_the_weights():
    """The weights have the gradient of soft attention, the values that of the drawn positions."""
    torch.manual_seed(3)
    queries, keys = QUERIES.double().requires_grad_(), KEYS.double().requires_grad_()
    values = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(2, 3, 6, dtype=torch.float64)
    soft = Attention(ScaledDot())
    hard = StraightThroughAttention(soft).train()
    result = hard(queries, hard.prepare(keys), values, MASK, need_weights=True)
    for row in range(2):
        for step in range(3):
            drawn = int(result.weights[row, step].argmax())
            assert result.drawn[row, step] == drawn
            assert torch.equal(result.context[row, step], values[row, drawn])
    (result.context * gradient).sum().backward()
    drawn_gradient = torch.zeros_like(values)
    for row in range(2):
        for step in range(3):
            drawn_gradient[row, result.drawn[row, step]] += gradient[row, step]
    torch.testing.assert_close(values.grad, drawn_gradient)

    expected = [QUERIES.double().requires_grad_(), KEYS.double().requires_grad_()]
    mean = soft(expected[0], soft.prepare(expected[1]), values.detach(), MASK)
    (mean.context * gradient).sum().backward()
    torch.testing.assert_close(queries.grad, expected[0].grad)
    torch.testing.assert_close(keys.grad, expected[1].grad)


def test_hidden_values_have_no_influence_on_straight_through_training():
    attention = StraightThroughAttention(Attention(ScaledDot())).train()
    mask = torch.ones(2, 1, 5, dtype=torch.bool)
    mask[1, :, 3:] = False
    values = KEYS.clone()
    expected = attention(QUERIES, attention.prepare(KEYS), values, mask).context
    values[1, 4] = float("nan")
    context = attention(QUERIES, attention.prepare(values), values, mask).context
    assert torch.equal(context, expected)


def test_straight_through_attention_learns_which_position_to_attend_to():
    """One of five values is the target; a gradient reaches the score of every position."""
    torch.manual_seed(3)
    scores = torch.zeros(1, 1, 5, requires_grad=True)
    values = torch.eye(5)[None]
    attention = StraightThroughAttention(Attention(ScaledDot())).train()
    optimiser = torch.optim.SGD([scores], lr=2.0)
    for _ in range(60):
        context = attention(scores, attention.prepare(torch.eye(5)[None]), values).context
        optimiser.zero_grad()
        (context - values[:, 3:4]).square().sum().backward()
        optimiser.step()
    context = attention.eval()(scores, attention.prepare(torch.eye(5)[None]), values).context
    assert int(context.argmax()) == 3


@pytest.mark.parametrize("expected", [-0.1, 2.0, float("nan")])
def test_the_share_of_expected_contexts_is_checked(expected):
    with pytest.raises(ValueError, match="expected a probability from 0 to 1"):
        HardAttention(Attention(ScaledDot()), expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("state", [torch.ones(2, 1), torch.ones(3, 1) > 0, torch.ones(2) > 0])
def test_a_state_that_does_not_fit(state):
    attention = HardAttention(Attention(ScaledDot()))
    keys, queries = torch.randn(2, 5, 7), torch.randn(2, 3, 7)
    with pytest.raises(ValueError, match=r"^state: expected bool of shape \(2, 1\)"):
        attention(queries, attention.prepare(keys), keys, state=state)
