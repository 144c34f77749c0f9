"""The GPU kernels compared with formula and tiles; without a GPU in Triton's interpreter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from regard.compiled.attention.fused_additive import backends, tiled
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.shapes import Tensor
from tests.compiled.attention.fused_additive.problems import (
    MASKS,
    Problem,
    Tensors,
    assert_as_right_as_float32,
    make,
    problems,
)

GPU = torch.cuda.is_available()


def interpret(patch: pytest.MonkeyPatch) -> None:
    if not GPU:
        patch.setenv("TRITON_INTERPRET", "1")


if not GPU and "triton.language" in sys.modules:
    pytest.skip("triton was imported before, and not for its interpreter", allow_module_level=True)

with pytest.MonkeyPatch.context() as at_import:
    interpret(at_import)  # read when functions become kernels, and when they run
    pytest.importorskip("triton", reason="the kernels for a GPU need triton")
    from regard.compiled.attention.fused_additive import triton_kernels

    if not GPU:
        try:
            triton_kernels.score(torch.ones(1, 1, 1), torch.ones(1, 1, 1), torch.ones(1))
        except (
            Exception
        ) as error:  # Triton 3.6 with NumPy 2.4, which converts no arrays to integers
            if "0-dimensional" not in str(error):
                raise
            reason = f"Triton's interpreter does not work with this NumPy: {error}"
            pytest.skip(reason, allow_module_level=True)


@pytest.fixture(autouse=True, scope="module")
def _interpreter() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        yield


pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # numpy as a GPU


def there(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.cuda() if GPU else tensor


def memory_there(problem: Problem) -> AdditiveMemory:
    tensors = (there(tensor) for tensor in (*problem.tensors[1:], problem.mask))
    return AdditiveMemory(*tensors, problem.scale)


def in_kernels(problem: Problem, *, saved: bool = True) -> Tensors:
    """Return context, weights and the four gradients of the kernels."""
    queries, memory, drop = there(problem.queries), memory_there(problem), there(problem.drop)
    context, weights = triton_kernels.attend(queries, memory, drop)
    above = there(problem.grad_context), there(problem.grad_weights)
    gradients = triton_kernels.differentiate(
        *above, queries, memory, drop, weights if saved else None
    )
    return tuple(result.cpu() for result in (context, weights, *gradients))


def in_tiles(problem: Problem) -> Tensors:
    queries, memory, drop = problem.queries, problem.memory, problem.drop
    context, weights = tiled.attend(queries, memory, drop)
    above = problem.grad_context, problem.grad_weights
    return context, weights, *tiled.differentiate(*above, queries, memory, drop, weights)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks small, so that tests cross every boundary."""
    for name in ("ROWS", "COLUMNS", "NUMBERS"):
        monkeypatch.setattr(triton_kernels, name, 4)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("mask", MASKS)
def test_triton_equals_the_tiled_backend(mask: str):
    """A fifth of queries and keys are far."""
    problem = make((2, 3, 5, 7, 11), largeness=20, mask=mask, dropout=True)
    result = in_kernels(problem, saved=False)
    assert_as_right_as_float32(result, problem)
    torch.testing.assert_close(result, in_tiles(problem), rtol=1e-5, atol=1e-5)


@settings(max_examples=5, deadline=None)
@given(problems())
def test_float32_errors_are_those_of_the_formula_in_float32(problem: Problem):
    assert_as_right_as_float32(in_kernels(problem), problem)


@pytest.mark.parametrize("scale", [0.1, 100.0])
def test_scores_of_any_scale_are_precise(scale: float):
    problem = replace(make((2, 3, 7, 11, 5), mask="uneven"), scale=scale)
    assert_as_right_as_float32(in_kernels(problem), problem)


@pytest.mark.parametrize("size", [1, 2, 17])
@pytest.mark.parametrize("rows", [1, 3])
def test_scores_equal_the_tiled_backend(size: int, rows: int):
    problem = make((2, rows, 5, size, 3), largeness=20)
    *tensors, vector = problem.tensors[:3]
    tensors.append(torch.cat([vector, torch.full((9,), torch.nan)])[:size])  # not to be read
    above = problem.grad_weights
    calls = {
        "score": tensors,
        "differentiate_score": (above, *tensors),
    }
    memory, moved = problem.memory, memory_there(problem)
    memory, moved = replace(memory, vector=tensors[2]), replace(moved, vector=there(tensors[2]))
    for name in ("differentiate_queries", "differentiate_keys"):
        result = getattr(triton_kernels, name)(there(above), there(problem.queries), moved)
        expected = getattr(tiled, name)(above, problem.queries, memory)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5, check_device=False)
    for name, arguments in calls.items():
        result = getattr(triton_kernels, name)(*map(there, arguments))
        expected = getattr(tiled, name)(*arguments)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5, check_device=False)


def test_precomputed_powers_change_no_result():
    problem = make((3, 2, 17, 13, 5), mask="padding")
    queries, memory = there(problem.queries), memory_there(problem)
    with_powers = replace(memory, powers=triton_kernels.powers(memory.keys))
    plain = triton_kernels.attend(queries, memory)
    ready = triton_kernels.attend(queries, with_powers)
    assert all(map(torch.equal, plain, ready))
    step = there(problem.grad_weights * problem.mask), queries
    plain = triton_kernels.differentiate_queries(*step, memory)
    assert torch.equal(plain, triton_kernels.differentiate_queries(*step, with_powers))


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 60.0])
@pytest.mark.parametrize("mask", ["padding", "nothing"])
def test_masked_keys_may_have_any_value(mask: str, garbage: float):
    problem = make((3, 2, 11, 7, 5), mask=mask, seed=1)
    unseen = ~problem.mask.any(dim=1)[..., None]
    dirty = replace(
        problem,
        keys=torch.where(unseen, garbage, problem.keys),
        values=torch.where(unseen, garbage, problem.values),
    )
    assert all(map(torch.equal, in_kernels(problem), in_kernels(dirty)))


def test_a_large_key_changes_no_other_pair():
    problem = make((2, 3, 13, 7, 5))
    above = problem.grad_weights.clone()
    above[..., 8] = 0

    def result() -> Tensors:
        tensors = [there(tensor) for tensor in problem.tensors[:3]]
        scores = triton_kernels.score(*tensors)
        grad_queries, grad_keys, _ = triton_kernels.differentiate_score(there(above), *tensors)
        return scores.cpu(), grad_queries.cpu(), grad_keys.cpu()

    before = result()
    problem.keys[:, 8] = 50
    after = result()
    others = torch.arange(13) != 8
    assert torch.equal(before[0][..., others], after[0][..., others])
    torch.testing.assert_close(after[0][..., 8], problem.vector.sum().expand(2, 3))
    assert torch.equal(before[1], after[1])
    assert torch.equal(before[2][:, others], after[2][:, others])


def test_fully_masked_queries_have_zero_context_and_gradients():
    problem = make((3, 5, 7, 11, 13), mask="uneven")
    problem.mask[0], problem.mask[1, 2] = False, False
    context, weights, *gradients = in_kernels(problem)
    assert not context[0].any()
    assert not context[1, 2].any()
    assert not weights[~problem.mask].any()
    assert not any(gradient[0].any() for gradient in (gradients[0], gradients[1], gradients[3]))
    assert not gradients[0][1, 2].any()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_bfloat16_rounds_only_inputs_and_outputs():
    problem = make((2, 5, 19, 23, 7), mask="uneven").to(torch.bfloat16)
    result, exact = in_kernels(problem), in_kernels(problem.to(torch.float32))
    assert [x.dtype for x in result] == [torch.bfloat16, torch.float32] + [torch.bfloat16] * 4
    for ours, theirs in zip(result, exact, strict=True):
        torch.testing.assert_close(ours.float(), theirs, rtol=0.01, atol=0.01)


def test_types_may_be_mixed():
    problem = make((2, 5, 7, 11, 3), mask="causal")
    mixed = replace(
        problem, queries=problem.queries.bfloat16(), keys=problem.keys.bfloat16(), drop=None
    )
    result, expected = in_kernels(mixed), in_tiles(mixed)
    assert [x.dtype for x in result] == [x.dtype for x in expected]
    exact = replace(mixed, queries=mixed.queries.float(), keys=mixed.keys.float())
    rounded = (x.to(y.dtype) for x, y in zip(in_kernels(exact), result, strict=True))
    assert all(map(torch.equal, result, rounded))


def test_results_are_bit_equal_between_calls():
    problem = make((1, 37, 67, 2, 5), mask="padding", dropout=True)
    assert all(map(torch.equal, in_kernels(problem), in_kernels(problem)))


def test_triton_is_used_on_request_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("REGARD_TRITON", raising=False)
    assert not triton_kernels.available()
    monkeypatch.setenv("REGARD_TRITON", "1")
    assert triton_kernels.available() is (GPU and torch.version.cuda is not None)
    if not GPU:
        assert backends.choose(torch.ones(1)) is not triton_kernels
