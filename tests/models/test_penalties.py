"""Attention penalties, compared with plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn

from regard.data.batch import pair_batch
from regard.models.contracts import AttentionBlock, DecoderOutput
from regard.models.penalties import NUM_BASELINES, DoublyStochastic, HardReward
from tests.messages import raises

BATCH = pair_batch([[4, 5, 6], [7, 8]], [[5, 6, 7, 2], [9, 2]])
PROJECTION = nn.Linear(3, 11)


def output(drawn=None, seed=0):
    torch.manual_seed(seed)
    weights = torch.rand(2, 1, 1, 4, 3) * BATCH.source.mask[:, None, None, None]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    places = None if drawn is None else torch.tensor(drawn)[:, None, None]
    block = AttentionBlock("cross", weights.requires_grad_(), None, places)
    return DecoderOutput(torch.randn(2, 4, 3), (block,))


def test_doubly_stochastic_penalises_weights_that_do_not_sum_to_one():
    arguments = output()
    weights, total = arguments.attention[0].weights[:, 0, 0], 0.0
    for row, (target, source) in enumerate([(4, 3), (2, 2)]):
        for place in range(source):
            taken = sum(float(weights[row, step, place].detach()) for step in range(target))
            total += (1 - taken) ** 2
    result = DoublyStochastic(0.5)(arguments, BATCH, PROJECTION)
    assert result.name == "doubly stochastic"
    assert result.value.item() == pytest.approx(0.5 * total)


DRAWN = [[0, 2, 1, 0], [-1, -1, -1, -1]]


def test_samples_before_probable_targets_are_rewarded():
    arguments, penalty = output(DRAWN), HardReward(0.7, 0.1).train()
    penalty.baseline.fill_(-3.0)
    weights = arguments.attention[0].weights[:, 0, 0].detach()
    total, rewards = 0.0, []
    for row, length in enumerate((4, 2)):
        logits = PROJECTION(arguments.features[row, :length]).log_softmax(dim=-1)
        reward = sum(float(logits[n, BATCH.outputs[row, n]].detach()) for n in range(length))
        rewards.append(reward)
        for step in range(length):
            line = [each for each in weights[row, step].tolist() if each > 0]
            total += 0.1 * sum(each * math.log(each) for each in line)
            if DRAWN[row][step] >= 0:
                chosen = math.log(float(weights[row, step, DRAWN[row][step]]))
                total += -0.7 * (reward + 3.0) * chosen
    result = penalty(arguments, BATCH, PROJECTION)
    assert result.value.item() == pytest.approx(total, rel=1e-5)
    assert float(penalty.baseline) == pytest.approx(-3 * 0.9 + 0.1 * sum(rewards) / 2)


@pytest.mark.parametrize("discount", [1.0, 0.5, 0.0])
def test_with_a_discount_samples_are_rewarded_for_their_own_and_later_tokens(discount):
    arguments, penalty = output(DRAWN), HardReward(0.7, 0.0, discount).train()
    baselines = [-3.0, -2.0, -1.5, -0.5]
    penalty.baseline[:4] = torch.tensor(baselines)
    weights = arguments.attention[0].weights[:, 0, 0].detach()
    tokens = PROJECTION(arguments.features).log_softmax(dim=-1).detach()
    logs = [float(tokens[0, n, BATCH.outputs[0, n]]) for n in range(4)]
    rewards = [sum(discount ** (n - step) * logs[n] for n in range(step, 4)) for step in range(4)]
    total = 0.0
    for step in range(4):  # the other target has expected contexts
        chosen = math.log(float(weights[0, step, DRAWN[0][step]]))
        total += -0.7 * (rewards[step] - baselines[step]) * chosen
    result = penalty(arguments, BATCH, PROJECTION)
    assert result.value.item() == pytest.approx(total, rel=1e-5)
    expected = [0.9 * old + 0.1 * new for old, new in zip(baselines, rewards, strict=True)]
    assert penalty.baseline[:4].tolist() == pytest.approx(expected)
    assert not penalty.baseline[4:].any()


@pytest.mark.parametrize("discount", [None, 1.0])
def test_the_expected_gradient_over_several_steps_is_exact(discount):
    """Two steps of three positions. The second draw, and the tokens of both steps, depend on the
    draws before them. The exact bound is the sum over all nine paths."""
    torch.manual_seed(4)
    batch = pair_batch([[4, 5, 6]], [[7, 2]])
    first = torch.randn(3, requires_grad=True)
    second = torch.randn(3, 3, requires_grad=True)
    features = torch.randn(3, 3, 1, 2, 3)
    features[..., 0, :] = features[
        :, :1, :, 0
    ]  # the first token does not depend on the second draw
    penalty = HardReward(1.0, 0.0, discount).eval()
    penalty.baseline.fill_(-2.0)
    bound, total = torch.zeros(()), torch.zeros(())
    for place, following in product(range(3), repeat=2):
        weights = torch.stack([first.softmax(dim=-1), second[place].softmax(dim=-1)])
        path = weights[0, place] * weights[1, following]
        seen = features[place, following]
        tokens = PROJECTION(seen)[0].log_softmax(dim=-1)[[0, 1], batch.outputs[0]]
        bound = bound + path * tokens.sum().detach()
        block = AttentionBlock(
            "image", weights[None, None, None], None, torch.tensor([[[[place, following]]]])
        )
        result = penalty(DecoderOutput(seen, (block,)), batch, PROJECTION)
        total = total + path.detach() * result.value
    expected = torch.autograd.grad(-bound, (first, second), retain_graph=True)
    for gradient, exact in zip(torch.autograd.grad(total, (first, second)), expected, strict=True):
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-6)


def test_the_expected_gradient_is_that_of_the_bound():
    """The expected gradient is that of the sum over positions of p(s) log p(y | s), for any
    baseline (Xu et al. 2015, eq. 11). A draw's weight in the mean of many draws is its
    probability."""
    batch = pair_batch([[4, 5, 6]], [[2]])
    logits = torch.randn(3, dtype=torch.float64, requires_grad=True)
    features = torch.randn(3, 1, 1, 3)
    rewards = [float(PROJECTION(each)[0, 0].log_softmax(dim=-1)[2].detach()) for each in features]
    bound = (logits.softmax(dim=-1) * torch.tensor(rewards, dtype=torch.float64)).sum()
    (expected,) = torch.autograd.grad(-bound, logits)
    penalty = HardReward(1.0, 0.0).eval()
    penalty.baseline.fill_(-2.0)
    total = torch.zeros(())
    for place, seen in enumerate(features):
        weights = logits.softmax(dim=-1).float()
        block = AttentionBlock(
            "image", weights[None, None, None, None], None, torch.tensor([[[[place]]]])
        )
        result = penalty(DecoderOutput(seen, (block,)), batch, PROJECTION)
        total = total + weights[place].detach() * result.value
    (gradient,) = torch.autograd.grad(total, logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_the_baseline_changes_in_training_only():
    penalty = HardReward(1.0, 0.0).eval()
    penalty(output(DRAWN), BATCH, PROJECTION)
    assert float(penalty.baseline) == 0


def test_steps_after_the_last_baseline_share_it():
    batch = pair_batch([[4, 5]], [[6] * NUM_BASELINES + [2]])
    target = NUM_BASELINES + 1
    weights = torch.full((1, 1, 1, target, 2), 0.5, requires_grad=True)
    block = AttentionBlock("cross", weights, None, torch.zeros(1, 1, 1, target).long())
    penalty = HardReward(1.0, 0.0, 0.0).train()
    features = torch.randn(1, target, 3)
    penalty(DecoderOutput(features, (block,)), batch, PROJECTION)
    logs = PROJECTION(features[0]).log_softmax(dim=-1)[range(target), batch.outputs[0]].detach()
    assert float(penalty.baseline[-1]) == pytest.approx(0.1 * float(logs[-2:].mean()))
    assert float(penalty.baseline[0]) == pytest.approx(0.1 * float(logs[0]))


def test_missing_attention_is_rejected():
    with pytest.raises(ValueError, match="expected positions drawn by hard attention"):
        HardReward(1.0, 0.0)(output(), BATCH, PROJECTION)
    with raises(ValueError):
        DoublyStochastic(1.0)(DecoderOutput(torch.randn(2, 4, 3)), BATCH, PROJECTION)


def test_the_reward_is_a_constant_to_the_gradient():
    """Otherwise this term would also train the model to make its targets more probable."""
    arguments, projection = output(DRAWN), nn.Linear(3, 11)
    arguments = replace(arguments, features=arguments.features.requires_grad_())
    HardReward(0.7, 0.1).train()(arguments, BATCH, projection).value.backward()
    assert arguments.features.grad is None
    assert projection.weight.grad is None
    assert float(arguments.attention[0].weights.grad.abs().sum()) > 0
