"""Smoothed cross entropy against a loop in float64 and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.data.batch import pair_batch
from regard.errors import UserError
from regard.models.seq2seq import Seq2SeqOutput
from regard.training.loss import CrossEntropy, mean_word_loss
from tests.oracles.loss import smoothed_cross_entropy
from tests.training.fakes import TinyBatches, tiny_model


def output(logits: torch.Tensor, targets: torch.Tensor) -> Seq2SeqOutput:
    """Features that are the logits."""
    layer = nn.Linear(logits.size(1), logits.size(1), bias=False, dtype=logits.dtype)
    nn.init.eye_(layer.weight)
    return Seq2SeqOutput(logits, targets, layer)


def test_the_oracle_by_hand():
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
    ours = CrossEntropy(smoothing)(output(logits, targets))
    right = smoothed_cross_entropy(logits.numpy(), targets.numpy(), smoothing)
    assert float(ours.detach()) == pytest.approx(right, rel=1e-12)


def test_a_loss_of_bfloat16_logits_is_float32():
    logits = torch.randn(5, 7).bfloat16()
    loss = CrossEntropy()(output(logits, torch.arange(5)))
    assert loss.dtype == torch.float32
    assert loss == CrossEntropy()(output(logits.float(), torch.arange(5)))


def test_what_the_sum_is_divided_by():
    batch = pair_batch([[4], [5, 6], [7]], [[4, 5, 6], [7], [8, 9]])
    assert CrossEntropy(per="word").count(batch) == 6
    assert CrossEntropy(per="sentence").count(batch) == 3


def test_the_dev_loss_is_per_word_over_all_batches():
    model, batches = tiny_model(), list(TinyBatches(3).epoch(1))
    total = sum(CrossEntropy()(model(batch)).item() for batch in batches)
    words = sum(int(batch.mask.sum()) for batch in batches)
    assert mean_word_loss(model, batches) == pytest.approx(total / words)
    with pytest.raises(ValueError, match="no words"):
        mean_word_loss(model, [])


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
def test_smoothing_out_of_range_is_refused(smoothing):
    with pytest.raises(UserError, match="label_smoothing"):
        CrossEntropy(smoothing)
