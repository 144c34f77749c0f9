"""Top-k compared with a stable sort, with many equal values."""

import pytest
import torch
from hypothesis import given, settings, strategies

from regard.search.topk import BLOCK, stable_topk, stable_topk_of_sums


@settings(max_examples=50, deadline=None)
@given(
    seed=strategies.integers(0, 1000),
    width=strategies.integers(1, 13 * BLOCK),
    count=strategies.integers(0, 23),
    levels=strategies.integers(1, 500),
    dead=strategies.floats(0, 1),
    dtype=strategies.sampled_from([torch.float32, torch.float64]),
)
def test_top_k_equals_a_stable_sort(seed, width, count, levels, dead, dtype):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-levels, 3, (5, width), generator=generator).to(dtype)
    scores[torch.rand(5, width, generator=generator) < dead] = -torch.inf
    before, count = scores.clone(), min(count, width)
    values, places = stable_topk(scores, count)
    expected, order = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected[:, :count])
    there = values > -torch.inf
    assert torch.equal(places[there], order[:, :count][there])
    assert places.numel() == 0 or 0 <= int(places.min()) <= int(places.max()) < width
    assert torch.equal(scores, before)


@settings(max_examples=25, deadline=None)
@given(
    seed=strategies.integers(0, 1000),
    width=strategies.integers(1, 7 * BLOCK),
    groups=strategies.integers(1, 7),
    count=strategies.integers(1, 7),
    levels=strategies.integers(1, 50),
)
def test_sums_are_ranked_without_being_computed(seed, width, groups, count, levels):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-levels, 3, (5, groups, width), generator=generator) / 10
    totals = torch.randint(-levels, 3, (5, groups), generator=generator) / 7
    totals[0, 0] = -torch.inf
    count = min(count, groups * width)
    values, places = stable_topk_of_sums(totals, scores, count)
    sums = (totals[:, :, None] + scores).flatten(1)
    expected, order = sums.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected[:, :count])
    there = values > -torch.inf
    assert torch.equal(places[there], order[:, :count][there])


@pytest.mark.parametrize("width", [5, 7 * BLOCK])
def test_a_row_of_minus_infinity_gives_distinct_indices(width):
    _, places = stable_topk(torch.full((2, width), -torch.inf), 3)
    assert places.tolist() == [[0, 1, 2]] * 2
