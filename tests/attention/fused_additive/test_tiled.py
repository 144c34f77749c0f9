"""The tiles against the formula in float64, and against themselves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from regard.attention.fused_additive import tiled, tiles
from tests.attention.fused_additive.problems import (
    MASKS,
    Problem,
    Tensors,
    assert_as_right_as_float32,
    by_formula,
    make,
    problems,
)
from tests.oracles import additive as oracle


def in_tiles(problem: Problem, *, saved: bool = True) -> Tensors:
    """Context, weights and the four gradients."""
    context, weights = tiled.attend(*problem.tensors, problem.mask, problem.drop, problem.scale)
    gradients = tiled.differentiate(
        problem.grad_context,
        problem.grad_weights,
        *problem.tensors,
        problem.mask,
        problem.drop,
        problem.scale,
        weights if saved else None,
    )
    return context, weights, *gradients


@pytest.fixture(params=["one tile", "many tiles"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With chunks and tiles of a few numbers every boundary is crossed."""
    if request.param == "many tiles":
        monkeypatch.setattr(tiles, "TILE_SIZE", 40)
        monkeypatch.setattr(tiles, "CHUNK_SIZE", 30)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("largeness", [1.0, 500.0])
def test_is_the_formula_with_its_gradients(mask: str, dropout: bool, largeness: float):
    problem = make((3, 5, 7, 11, 13), largeness=largeness, mask=mask, dropout=dropout)
    problem = problem.to(torch.float64)
    expected = by_formula(problem)
    for saved in (True, False):
        found = in_tiles(problem, saved=saved)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_float32_is_as_right_as_the_formula_in_float32(problem: Problem):
    assert_as_right_as_float32(in_tiles(problem), problem)


@settings(max_examples=20, deadline=None)
@given(problems())
def test_any_tiles_give_the_same_scores(problem: Problem):
    scores = tiled.score(problem.queries, problem.keys, problem.vector)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE_SIZE", 64)
        patch.setattr(tiles, "CHUNK_SIZE", 64)
        again = tiled.score(problem.queries, problem.keys, problem.vector)
    torch.testing.assert_close(again, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largeness", [1.0, 60.0])
def test_scores_are_the_formula_with_their_constant(largeness: float):
    problem = make(largeness=largeness).to(torch.float64)
    queries, keys, vector, _ = problem.tensors
    leaves = tuple(x.clone().requires_grad_() for x in (queries, keys, vector))
    expected = oracle.scores(*leaves)
    torch.testing.assert_close(tiled.score(queries, keys, vector), expected.detach())
    gradients = torch.autograd.grad(expected, leaves, problem.grad_weights)
    above = problem.grad_weights, queries, keys, vector
    torch.testing.assert_close(tiled.differentiate_score(*above), gradients)
    torch.testing.assert_close(tiled.differentiate_queries(*above), gradients[0])
    torch.testing.assert_close(tiled.differentiate_keys(*above), gradients[1:])


def test_powers_taken_before_change_nothing():
    problem = make((3, 1, 17, 13, 5), mask="padding")
    plain = tiled.attend(*problem.tensors, problem.mask)
    ready = tiled.attend(*problem.tensors, problem.mask, powers=tiled.powers(problem.keys))
    assert all(map(torch.equal, plain, ready))
    assert tiled.powers(problem.keys * 100) is None


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("mask", ["padding", "causal", "window", "nothing"])
def test_what_no_query_sees_may_be_anything(mask: str, garbage: float):
    problem = make((3, 5, 17, 13, 5), mask=mask)
    clean = in_tiles(problem)
    unseen = ~problem.mask.any(dim=1)[..., None]
    dirty = Problem(
        **{
            **vars(problem),
            "keys": torch.where(unseen, garbage, problem.keys),
            "values": torch.where(unseen, garbage, problem.values),
        }
    )
    for before, after in zip(clean, in_tiles(dirty), strict=True):
        assert torch.equal(before, after)


def test_who_sees_nothing_gets_zeros_and_gives_none():
    problem = make((3, 5, 7, 11, 13), mask="uneven")
    problem.mask[0], problem.mask[1, 2] = False, False
    context, weights, *gradients = in_tiles(problem)
    assert not context[0].any()
    assert not context[1, 2].any()
    assert not weights[~problem.mask].any()
    assert not any(gradient[0].any() for gradient in (gradients[0], gradients[1], gradients[3]))
    assert not gradients[0][1, 2].any()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_far_key_changes_no_other_pair():
    problem = make((2, 3, 50, 31, 5))
    before = tiled.score(problem.queries, problem.keys, problem.vector)
    problem.keys[:, 7] = 50
    after = tiled.score(problem.queries, problem.keys, problem.vector)
    others = torch.arange(50) != 7
    assert torch.equal(before[..., others], after[..., others])
    expected = problem.vector.sum().expand(2, 3)
    torch.testing.assert_close(after[..., 7], expected)


def test_hidden_tiles_are_not_formed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiles, "TILE_SIZE", 64 * 16)
    sizes = (1, 64, 64, 16, 3)

    def pairs_formed(mask: str) -> int:
        problem = make(sizes, mask=mask)
        chunks = tiles.Pairs(problem.queries, problem.keys, problem.mask).chunks()
        return sum(tile.shares[..., 0].numel() for chunk in chunks for tile in chunk.tiles())

    assert pairs_formed("none") == 64 * 64
    assert pairs_formed("causal") <= 0.6 * 64 * 64
    assert pairs_formed("window") <= 0.2 * 64 * 64
    assert pairs_formed("nothing") == 0


def test_bfloat16_is_float32_with_its_ends_rounded():
    problem = make((2, 5, 19, 23, 7), mask="uneven").to(torch.bfloat16)
    found, exact = in_tiles(problem), in_tiles(problem.to(torch.float32))
    assert [x.dtype for x in found] == [torch.bfloat16, torch.float32] + [torch.bfloat16] * 4
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.float(), theirs, rtol=0.01, atol=0.01)


def test_the_same_bits_every_time():
    problem = make((5, 37, 61, 64, 31), mask="padding", dropout=True)
    first = in_tiles(problem)
    for _ in range(3):
        assert all(map(torch.equal, first, in_tiles(problem)))
