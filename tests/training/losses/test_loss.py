"""Smoothed cross entropy against a loop in float64 and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.compiled.losses import BLOCKWISE
from regard.data.batch import pair_batch
from regard.errors import UserError
from regard.models.seq2seq import Seq2SeqOutput
from regard.training.losses.logits import FORMULAS
from regard.training.losses.loss import (
    CrossEntropy,
    jensen_shannon_divergence,
    kl_divergence,
)
from tests.oracles.loss import smoothed_cross_entropy


def output(logits: torch.Tensor, targets: torch.Tensor) -> Seq2SeqOutput:
    """Features that are the logits."""
    layer = nn.Linear(logits.size(1), logits.size(1), bias=False, dtype=logits.dtype)
    nn.init.eye_(layer.weight)
    return Seq2SeqOutput(logits, targets, layer)


def test_the_oracle_equals_values_worked_out_by_hand():
    # log softmax is log 3/4 and log 1/4; smoothing by 1/2 gives the target 3/4 of the probability.
    logits = np.array([[math.log(3), 0.0]])
    right = -(0.75 * math.log(3 / 4) + 0.25 * math.log(1 / 4))
    assert smoothed_cross_entropy(logits, np.array([0]), 0.5) == pytest.approx(right, abs=1e-12)
    assert smoothed_cross_entropy(logits, np.array([1]), 0.0) == pytest.approx(math.log(4))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 999),
    words=st.sampled_from([1, 5, 11]),
    smoothing=st.sampled_from([0.0, 0.1, 0.7]),
)
def test_cross_entropy_is_the_sum_of_the_loop(seed, words, smoothing):
    torch.manual_seed(seed)
    logits = 5 * torch.randn(words, 7, dtype=torch.float64)
    targets = torch.randint(7, (words,))
    right = smoothed_cross_entropy(logits.numpy(), targets.numpy(), smoothing)
    for functions in (FORMULAS, BLOCKWISE):
        ours = CrossEntropy(smoothing, functions=functions)(output(logits, targets))
        assert float(ours.detach()) == pytest.approx(right, rel=1e-12)


def test_a_loss_of_bfloat16_logits_is_float32():
    logits = torch.randn(5, 7).bfloat16()
    loss = CrossEntropy()(output(logits, torch.arange(5)))
    assert loss.dtype == torch.float32
    assert loss == CrossEntropy()(output(logits.float(), torch.arange(5)))


def test_the_loss_is_divided_by_words_or_sentences():
    batch = pair_batch([[4], [5, 6], [7]], [[4, 5, 6], [7], [8, 9]])
    assert CrossEntropy(per="word").count(batch) == 6
    assert CrossEntropy(per="sentence").count(batch) == 3


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
def test_smoothing_out_of_range_is_refused(smoothing):
    with pytest.raises(UserError, match="label_smoothing"):
        CrossEntropy(smoothing)


def distributions(seed):
    """Two, with a word that the first alone rules out and one that both do."""
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(2, 5, 7, dtype=torch.float64, generator=generator)
    probabilities[0, :, 2] = probabilities[:, :, 4] = 0
    return probabilities / probabilities.sum(dim=-1, keepdim=True)


def loop_divergence(p, q):
    return sum(x * math.log(x / y) for x, y in zip(p.tolist(), q.tolist(), strict=True) if x > 0)


@pytest.mark.parametrize("seed", range(5))
def test_divergences_equal_a_plain_loop(seed):
    p, q = distributions(seed)
    kl = [loop_divergence(*row) for row in zip(p, q, strict=True)]
    torch.testing.assert_close(kl_divergence(p.log(), q.log()), torch.tensor(kl).double())
    middle = (p + q) / 2
    expected = [
        (loop_divergence(x, m) + loop_divergence(y, m)) / 2
        for x, y, m in zip(p, q, middle, strict=True)
    ]
    result = jensen_shannon_divergence(p.log(), q.log())
    torch.testing.assert_close(result, torch.tensor(expected).double())
    torch.testing.assert_close(result, jensen_shannon_divergence(q.log(), p.log()))
    assert (result >= 0).all()
    assert (result <= math.log(2)).all()


def test_divergences_of_equal_and_disjoint_distributions():
    p, q = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.25, 0.75]]).double().log()
    assert kl_divergence(p, p) == 0
    assert jensen_shannon_divergence(p, p) == 0
    assert kl_divergence(p, q) == math.inf
    assert float(jensen_shannon_divergence(p, q)) == pytest.approx(math.log(2))


def test_divergences_have_gradients_with_impossible_words():
    logits = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([False, True, False, False, False])
    p, q = logits.masked_fill(mask, -torch.inf).log_softmax(dim=-1)
    for divergence in (kl_divergence, jensen_shannon_divergence):
        (gradient,) = torch.autograd.grad(divergence(p, q), logits, retain_graph=True)
        assert gradient.isfinite().all()
        assert gradient[:, 1].eq(0).all()


class Cold(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 5 * super().forward(inputs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_projection_of_another_type_is_called(smoothing: float):
    torch.manual_seed(5)
    projection, targets = Cold(7, 11), torch.tensor([3, 0, 10])
    features = torch.randn(3, 7)
    loss = CrossEntropy(label_smoothing=smoothing)(Seq2SeqOutput(features, targets, projection))
    logits = projection(features).detach().double().numpy()
    expected = smoothed_cross_entropy(logits, targets.numpy(), smoothing)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
