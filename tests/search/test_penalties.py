"""Penalties compared with values computed by hand."""

import math

import pytest
import torch

from regard.models.contracts import AttentionBlock
from regard.search import Average, GoogleLength, NoPenalty
from regard.search.penalties import SourceCoverage
from tests.search.fake import memories

LENGTHS = torch.tensor([1, 7, 13])


def test_the_length_penalty_equals_the_papers_formula():
    assert NoPenalty()(LENGTHS).tolist() == [1, 1, 1]
    assert Average()(LENGTHS).tolist() == [1, 7, 13]
    assert GoogleLength(0.5)(LENGTHS).tolist() == pytest.approx([1, math.sqrt(2), math.sqrt(3)])
    assert GoogleLength(0.0)(LENGTHS).tolist() == [1, 1, 1]


def test_a_negative_alpha_is_refused():
    with pytest.raises(ValueError, match="alpha is -1"):
        GoogleLength(-1.0)


def test_coverage_is_the_sum_of_weights_up_to_one():
    coverage = SourceCoverage.none(memories([3, 2])[0])
    step = torch.tensor([[[0.5, 0.5, 0.0]], [[0.25, 0.75, 0.0]]])[:, None, None]
    block = AttentionBlock("cross", step)
    parents = torch.zeros(2, 1, dtype=torch.long)
    for _ in range(3):
        coverage = coverage.extend((block,), parents)
    expected = [math.log(1e-6), math.log(0.75)]  # 1.5, 1.5, never and 0.75, 2.25, padding
    assert coverage.score()[:, 0].tolist() == pytest.approx(expected)


def test_coverage_follows_the_hypothesis_that_is_continued():
    coverage = SourceCoverage.none(memories([2])[0])
    first = AttentionBlock("cross", torch.tensor([[0.5, 0.5]])[None, None, None])
    coverage = coverage.extend((first,), torch.tensor([[0, 0]]))
    second = torch.tensor([[0.1, 0.3], [0.4, 0.2]])[None, None, None]
    coverage = coverage.extend((AttentionBlock("cross", second),), torch.tensor([[1, 0]]))
    torch.testing.assert_close(coverage.attended, torch.tensor([[[0.9, 0.7], [0.6, 0.8]]]))
