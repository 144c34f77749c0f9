"""The kernel and the PyTorch formula for candidates, compared with all sums."""

import pytest
import torch
from hypothesis import given, settings, strategies

from regard.compiled.candidates import top_candidates
from regard.search import candidates
from regard.search.candidates import log_probabilities


def all_sums(logits, totals, forbidden):
    """Return all sums of each sentence in float64, one row a sentence."""
    values = torch.log_softmax(logits.double(), dim=2)
    values[..., forbidden] = -torch.inf
    return (totals.double()[..., None] + values).flatten(1)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@settings(max_examples=30, deadline=None)
@given(
    seed=strategies.integers(0, 1000),
    hypotheses=strategies.integers(1, 5),
    words=strategies.integers(1, 211),
    count=strategies.integers(1, 23),
    num_forbidden=strategies.integers(0, 3),
)
def test_candidates_have_the_highest_sums(dtype, seed, hypotheses, words, count, num_forbidden):
    generator = torch.Generator().manual_seed(seed)
    logits = (5 * torch.randn(3, hypotheses, words, generator=generator)).to(dtype)
    totals = -torch.rand(3, hypotheses, generator=generator)
    totals[0, 0] = -torch.inf
    forbidden = torch.randint(0, words, (num_forbidden,), generator=generator)
    sums = all_sums(logits, totals, forbidden)
    for search in (top_candidates, candidates.top_candidates):
        result = search(logits, totals, forbidden, min(count, hypotheses * words))
        values, _ = sums.sort(dim=1, descending=True)
        expected = values[:, : result.totals.size(1)]
        torch.testing.assert_close(result.totals.double(), expected, rtol=1e-5, atol=1e-5)
        places = result.parents * words + result.tokens
        for row, possible in zip(places, result.totals > -torch.inf, strict=True):
            assert len(row[possible].unique()) == possible.sum()
        torch.testing.assert_close(sums.gather(1, places), expected, rtol=1e-5, atol=1e-5)
        of_token = expected - totals.double().gather(1, result.parents)
        dead = expected == -torch.inf
        of_token = of_token.masked_fill(dead, -torch.inf)
        torch.testing.assert_close(
            result.log_probabilities.double(), of_token, rtol=1e-5, atol=1e-5
        )


@pytest.mark.usefixtures("instruction_set")
@settings(max_examples=30, deadline=None)
@given(
    seed=strategies.integers(0, 1000),
    words=strategies.integers(1, 90),
    count=strategies.integers(1, 7),
    levels=strategies.integers(1, 5),
)
def test_equal_candidates_are_ordered_by_hypothesis_then_token(seed, words, count, levels):
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(0, levels, (words,), generator=generator).float()
    logits, totals = row.expand(2, 3, words), torch.tensor([[-1.0, -1.0, -2.0], [-3.0, -1.0, -3.0]])
    result = top_candidates(logits, totals, torch.tensor([], dtype=torch.long), count)
    for sentence in range(2):
        ranked = sorted(
            (-(float(totals[sentence, parent]) + float(row[token])), parent, token)
            for parent in range(3)
            for token in range(words)
        )[:count]
        assert result.parents[sentence].tolist() == [parent for _, parent, _ in ranked]
        assert result.tokens[sentence].tolist() == [token for _, _, token in ranked]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nan_comes_first(bad):
    logits = torch.randn(2, 3, 67)
    logits[1, 2, 41] = bad
    for search in (top_candidates, candidates.top_candidates):
        result = search(logits, torch.zeros(2, 3), torch.tensor([0]), 4)
        assert result.totals[0].isfinite().all()
        assert result.totals[1].isnan().all()
        assert result.parents[1].tolist() == [2] * 4
        assert result.tokens[1].tolist() == [1, 2, 3, 4]


@pytest.mark.usefixtures("instruction_set")
def test_if_all_tokens_are_forbidden_all_candidates_are_impossible():
    result = top_candidates(torch.zeros(1, 2, 3), torch.zeros(1, 2), torch.arange(3), 4)
    assert (result.totals == -torch.inf).all()
    assert (result.log_probabilities == -torch.inf).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("token", [-1, 3])
def test_forbidden_tokens_out_of_range_are_refused(dtype, token):
    with pytest.raises(ValueError, match="out of range"):
        top_candidates(
            torch.zeros(1, 2, 3, dtype=dtype),
            torch.zeros(1, 2, dtype=dtype),
            torch.tensor([0, token]),
            4,
        )


def test_inputs_may_have_any_memory_layout():
    logits, totals = torch.randn(7, 3, 2).mT, torch.randn(2, 7).T
    forbidden = torch.tensor([1])
    result, expected = (
        find(logits, totals, forbidden, 2) for find in (top_candidates, candidates.top_candidates)
    )
    assert torch.equal(result.tokens, expected.tokens)
    assert torch.equal(result.parents, expected.parents)
    torch.testing.assert_close(result.totals, expected.totals)


def test_log_probabilities_of_allowed_tokens_are_unchanged():
    logits = torch.randn(2, 5)
    result = log_probabilities(logits, torch.tensor([3]))
    expected = torch.log_softmax(logits, dim=1)
    assert (result[:, 3] == -torch.inf).all()
    torch.testing.assert_close(result[:, [0, 1, 2, 4]], expected[:, [0, 1, 2, 4]])
