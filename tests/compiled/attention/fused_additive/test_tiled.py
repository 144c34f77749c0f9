"""The tiles compared with the formula in float64. Properties of every backend are in
test_backends.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from regard.compiled.attention.fused_additive import tiled, tiles
from tests.compiled.attention.fused_additive.problems import (
    MASKS,
    Problem,
    by_backend,
    by_formula,
    make,
    problems,
)
from tests.oracles import additive as oracle


@pytest.fixture(params=["one tile", "many tiles"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks and tiles of a few numbers, so that tests cross every boundary."""
    if request.param == "many tiles":
        monkeypatch.setattr(tiles, "TILE_SIZE", 40)
        monkeypatch.setattr(tiles, "CHUNK_SIZE", 30)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("largeness", [1.0, 500.0])
def test_output_and_gradients_equal_the_formula(mask: str, dropout: bool, largeness: float):
    problem = make((3, 5, 7, 11, 13), largeness=largeness, mask=mask, dropout=dropout)
    problem = problem.to(torch.float64)
    expected = by_formula(problem)
    for saved in (True, False):
        result = by_backend(tiled, problem, saved=saved)
        torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(problems())
def test_scores_do_not_depend_on_tile_sizes(problem: Problem):
    scores = tiled.score(problem.queries, problem.keys, problem.vector)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE_SIZE", 64)
        patch.setattr(tiles, "CHUNK_SIZE", 64)
        again = tiled.score(problem.queries, problem.keys, problem.vector)
    torch.testing.assert_close(again, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largeness", [1.0, 60.0])
def test_scores_equal_the_formula(largeness: float):
    problem = make(largeness=largeness).to(torch.float64)
    queries, keys, vector, _ = problem.tensors
    leaves = tuple(x.clone().requires_grad_() for x in (queries, keys, vector))
    expected = oracle.scores(*leaves)
    torch.testing.assert_close(tiled.score(queries, keys, vector), expected.detach())
    gradients = torch.autograd.grad(expected, leaves, problem.grad_weights)
    above = problem.grad_weights, queries, keys, vector
    torch.testing.assert_close(tiled.differentiate_score(*above), gradients)
    above = problem.grad_weights, queries, problem.memory
    torch.testing.assert_close(tiled.differentiate_queries(*above), gradients[0])
    torch.testing.assert_close(tiled.differentiate_keys(*above), gradients[1:])


def test_precomputed_powers_change_no_result():
    problem = make((3, 1, 17, 13, 5), mask="padding")
    plain = tiled.attend(problem.queries, problem.memory)
    with_powers = replace(problem.memory, powers=tiled.powers(problem.keys))
    ready = tiled.attend(problem.queries, with_powers)
    assert all(map(torch.equal, plain, ready))
    assert tiled.powers(problem.keys * 100) is None


def test_powers_of_another_type_are_not_used():
    problem = make((3, 1, 17, 13, 5))
    powers = tiled.powers(problem.keys)
    problem = problem.to(torch.float64)
    plain = tiled.attend(problem.queries, problem.memory)
    ready = tiled.attend(problem.queries, replace(problem.memory, powers=powers))
    assert all(map(torch.equal, plain, ready))


def test_masked_tiles_are_not_computed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiles, "TILE_SIZE", 64 * 16)
    sizes = (1, 64, 64, 16, 3)

    def pairs_formed(mask: str) -> int:
        problem = make(sizes, mask=mask)
        chunks = tiles.Pairs(problem.queries, problem.keys, problem.memory).chunks()
        return sum(tile.sigmoids[..., 0].numel() for chunk in chunks for tile in chunk.tiles())

    assert pairs_formed("none") == 64 * 64
    assert pairs_formed("causal") <= 0.6 * 64 * 64
    assert pairs_formed("window") <= 0.2 * 64 * 64
    assert pairs_formed("nothing") == 0
