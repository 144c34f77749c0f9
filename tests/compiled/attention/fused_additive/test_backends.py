"""Properties of every backend of a CPU: the tiles, and the kernels of every instruction set of this
machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from regard import kernels
from regard.compiled.attention.fused_additive import native, tiled
from regard.numerics import product_library
from tests.compiled.attention.fused_additive.problems import (
    MASKS,
    Problem,
    assert_as_right_as_float32,
    by_backend,
    make,
    problems,
)
from tests.oracles import additive as oracle

KERNELS = {
    "AVX-512": (16, False),
    "AVX2": (8, False),
    "AVX2 with estimates": (8, True),
    "baseline": (4, False),
}
"""Lanes of the kernels of a CPU, and whether those of AVX2 estimate reciprocals."""


@pytest.fixture(params=["tiled", *KERNELS])
def backend(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    if request.param == "tiled":
        yield tiled
        return
    if not kernels.available():
        pytest.skip("the kernels are not compiled")
    best, (lanes, estimates) = kernels.lanes(), KERNELS[request.param]
    if kernels.lanes(lanes) != lanes:
        pytest.skip(f"this machine has no {request.param}")
    kernels.reciprocal_estimates(estimates)
    yield native
    kernels.reciprocal_estimates()
    kernels.lanes(best)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(problem=problems(size=300))
def test_float32_errors_are_those_of_the_formula_in_float32(backend: ModuleType, problem: Problem):
    assert_as_right_as_float32(by_backend(backend, problem), problem)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("largeness", [1.0, 6.0, 500.0])
def test_errors_of_long_rows_are_those_of_the_formula(
    backend: ModuleType, mask: str, largeness: float
):
    problem = make((2, 23, 301, 260, 9), mask=mask, dropout=True, largeness=largeness)
    assert_as_right_as_float32(by_backend(backend, problem, saved=False), problem)


@pytest.mark.parametrize("largeness", [0.1, 1.0, 60.0])
def test_scores_include_the_sum_of_the_vector(backend: ModuleType, largeness: float):
    problem = make((2, 5, 19, 150, 3), largeness=largeness)
    queries, keys, vector, _ = problem.tensors
    leaves = tuple(x.double().requires_grad_() for x in (queries, keys, vector))
    expected = oracle.scores(*leaves)
    result = backend.score(queries, keys, vector)
    torch.testing.assert_close(result, expected.detach().float(), rtol=1e-5, atol=3e-6)
    above = problem.grad_weights
    gradients = [x.float() for x in torch.autograd.grad(expected, leaves, above.double())]
    arguments = above, queries, keys, vector
    close = {"rtol": 2e-5, "atol": 2e-4}
    torch.testing.assert_close([*backend.differentiate_score(*arguments)], gradients, **close)
    arguments = above, queries, problem.memory
    torch.testing.assert_close(backend.differentiate_queries(*arguments), gradients[0], **close)
    torch.testing.assert_close([*backend.differentiate_keys(*arguments)], gradients[1:], **close)


@pytest.mark.parametrize("mask", ["none", "padding", "uneven"])
@pytest.mark.parametrize("target", [1, 3, 6])
@pytest.mark.parametrize("largeness", [1.0, 15.0, 100.0, 1e4])
def test_precomputed_powers_change_no_result(
    backend: ModuleType, mask: str, target: int, largeness: float
):
    problem = make((3, target, 37, 45, 5), mask=mask, largeness=largeness)
    powers = backend.powers(problem.keys)
    is_in_range = bool(problem.keys.abs().max() < 43)
    assert (powers is None) == (backend is tiled and not is_in_range)
    if powers is not None:
        assert powers.size(-1) == (45 if is_in_range else 90)
    queries, memory = problem.queries, problem.memory
    with_powers = replace(memory, powers=powers)
    plain = backend.attend(queries, memory)
    ready = backend.attend(queries, with_powers)
    torch.testing.assert_close(ready, plain)
    above = problem.grad_weights
    if problem.mask is not None:
        above = above * problem.mask
    plain = backend.differentiate_queries(above, queries, memory)
    torch.testing.assert_close(backend.differentiate_queries(above, queries, with_powers), plain)
    plain = backend.differentiate_keys(above, queries, memory)
    torch.testing.assert_close(backend.differentiate_keys(above, queries, with_powers), plain)


LARGE = [38.5, 42.9, 43.5, 100.0, 4000.0, 5000.0, 1e6, 1e10, 1e30]
"""Numbers around the limits of every method, and far beyond."""


def cancelling(largeness: float, target: int) -> Problem:
    """Return queries and keys of nearly equal size, so that tanh(q + k) is often neither 1 nor
    -1."""
    problem = make((2, target, 9, 70, 3))
    signs = torch.where(problem.vector > 0, 1.0, -1.0)
    steps = (torch.arange(problem.keys.numel()) % 3).view_as(problem.keys)
    nearly = 1 + torch.finfo(torch.float32).eps * steps
    smaller = problem.keys.abs() if largeness < 1e6 else 0
    keys = signs * (largeness * nearly - smaller)
    return replace(
        problem, queries=-signs * largeness * torch.ones_like(problem.queries), keys=keys
    )


@pytest.mark.parametrize("largeness", LARGE)
@pytest.mark.parametrize("target", [1, 7])
@pytest.mark.parametrize("ready", [False, True], ids=["alone", "with powers"])
def test_errors_with_cancelling_large_numbers_are_those_of_the_formula(
    backend: ModuleType, largeness: float, target: int, ready: bool
):
    problem = cancelling(largeness, target)
    powers = backend.powers(problem.keys) if ready else None
    memory = replace(problem.memory, powers=powers)
    context, weights = backend.attend(problem.queries, memory)
    gradients = by_backend(backend, problem)[2:]
    assert_as_right_as_float32((context, weights, *gradients), problem)
    expected = oracle.scores(*(x.double() for x in problem.tensors[:3]))
    assert expected.std() > 0.01  # not all saturated
    scores = backend.score(*problem.tensors[:3])
    torch.testing.assert_close(scores.double(), expected, rtol=0, atol=3e-6)
    above = problem.grad_weights
    with_powers = backend.differentiate_queries(above, problem.queries, memory)
    gradients = backend.differentiate_score(above, *problem.tensors[:3])
    torch.testing.assert_close(with_powers, gradients[0])


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30, 20.0])
@pytest.mark.parametrize("mask", ["padding", "causal", "window", "holes", "nothing"])
def test_masked_keys_may_have_any_value(backend: ModuleType, mask: str, garbage: float):
    problem = make((3, 5, 17, 140, 5), mask="none" if mask == "holes" else mask)
    if mask == "holes":
        holes = torch.arange(17) % 3 == 1
        problem = replace(problem, mask=~holes.expand(3, 1, 17))
    clean = by_backend(backend, problem)
    unseen = ~problem.mask.any(dim=1)[..., None]
    dirty = replace(
        problem,
        keys=torch.where(unseen, garbage, problem.keys),
        values=torch.where(unseen, garbage, problem.values),
    )
    for before, after in zip(clean, by_backend(backend, dirty), strict=True):
        assert torch.equal(before, after)


def test_fully_masked_queries_have_zero_context_and_gradients(backend: ModuleType):
    problem = make((3, 5, 7, 11, 13), mask="uneven")
    problem.mask[0], problem.mask[1, 2] = False, False
    context, weights, *gradients = by_backend(backend, problem)
    assert not context[0].any()
    assert not context[1, 2].any()
    assert not weights[~problem.mask].any()
    assert not any(gradient[0].any() for gradient in (gradients[0], gradients[1], gradients[3]))
    assert not gradients[0][1, 2].any()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("far", [15.0, 50.0])
def test_a_large_key_changes_no_other_pair(backend: ModuleType, far: float):
    problem = make((2, 3, 50, 131, 5))
    before = backend.score(problem.queries, problem.keys, problem.vector)
    problem.keys[:, 7] = far
    after = backend.score(problem.queries, problem.keys, problem.vector)
    others = torch.arange(50) != 7
    assert torch.equal(before[..., others], after[..., others])
    expected = problem.vector.sum().expand(2, 3)
    torch.testing.assert_close(after[..., 7], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [128, 150])
@pytest.mark.parametrize("sums", [5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0, 20.0, 30.0])
def test_products_of_large_powers_lose_no_term(backend: ModuleType, sums: float, size: int):
    problem = make((2, 7, 11, size, 3))
    signs = torch.tensor([1.0, -1.0])[torch.randint(2, (size,))]
    queries = sums / 2 * signs + 0.1 * problem.queries
    keys = sums / 2 * signs + 0.1 * problem.keys
    vector = torch.tensor([1.0, -0.5])[torch.randint(2, (size,))]
    expected = oracle.scores(queries.double(), keys.double(), vector.double()).float()
    result = backend.score(queries, keys, vector)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("uneven", ["zeros", "tiny", "all zero", "signs"])
def test_score_vectors_may_have_any_value(backend: ModuleType, uneven: str):
    problem = make((2, 9, 33, 160, 5))
    match uneven:
        case "zeros":
            problem.vector[::3] = 0
        case "tiny":
            problem.vector[::7] = 1e-30
        case "all zero":
            problem.vector.zero_()
        case "signs":
            problem.vector[:] = torch.tensor([1.0, -1.0]).repeat(80)
    assert_as_right_as_float32(by_backend(backend, problem), problem)


def test_visible_nan_reaches_the_output(backend: ModuleType):
    problem = make((2, 3, 7, 33, 5))
    problem.keys[0, 4, 20] = torch.nan
    context, weights, *_ = by_backend(backend, problem)
    assert context[0].isnan().all()
    assert context[1].isfinite().all()
    assert weights[1].isfinite().all()


@pytest.mark.parametrize("sizes", [(0, 3, 5, 7, 2), (2, 0, 5, 7, 2), (2, 3, 0, 7, 2)])
def test_empty_inputs_give_empty_outputs(
    backend: ModuleType, sizes: tuple[int, int, int, int, int]
):
    problem = make(sizes)
    context, weights = backend.attend(problem.queries, problem.memory)
    assert context.shape == (sizes[0], sizes[1], sizes[4])
    assert weights.shape == sizes[:3]
    assert not context.any()


@pytest.fixture
def fresh_memory_is_no_number() -> Iterator[None]:
    """Fill new memory with NaN, as its old content may be correct by chance."""
    torch.use_deterministic_algorithms(True)  # fills what is allocated
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("fresh_memory_is_no_number")
@pytest.mark.parametrize("sizes", [(0, 3, 5, 7, 2), (2, 0, 5, 7, 2), (2, 3, 0, 7, 2)])
def test_empty_inputs_give_zero_gradients(backend: ModuleType, sizes: tuple[int, ...]):
    problem = make(sizes)
    _, _, *gradients = by_backend(backend, problem)
    for gradient, numbers in zip(gradients, problem.tensors, strict=True):
        assert torch.equal(gradient, torch.zeros_like(numbers))


def test_bfloat16_rounds_only_inputs_and_outputs(backend: ModuleType):
    problem = make((2, 5, 19, 23, 7), mask="uneven").to(torch.bfloat16)
    result = by_backend(backend, problem)
    exact = by_backend(backend, problem.to(torch.float32))
    assert [x.dtype for x in result] == [torch.bfloat16, torch.float32] + [torch.bfloat16] * 4
    for ours, theirs in zip(result, exact, strict=True):
        torch.testing.assert_close(ours.float(), theirs, rtol=0.01, atol=0.01)


def test_results_are_bit_equal_between_calls(backend: ModuleType):
    problem = make((5, 37, 61, 64, 31), mask="padding", dropout=True)
    first = by_backend(backend, problem)
    for _ in range(3):
        assert all(map(torch.equal, first, by_backend(backend, problem)))


@pytest.mark.parametrize("batch", [1, 5])
def test_results_do_not_depend_on_the_number_of_threads(backend: ModuleType, batch: int):
    problem = make((batch, 130, 290, 96, 32), mask="causal", dropout=True)
    alone = by_backend(backend, problem)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        shared = by_backend(backend, problem)
    finally:
        torch.set_num_threads(threads)
    for before, after in zip(alone[:2], shared[:2], strict=True):
        torch.testing.assert_close(before, after, rtol=2e-5, atol=1e-5)
    for computed in (alone, shared):  # gradients are sums, whose order is PyTorch's own
        assert_as_right_as_float32(computed, problem)
    if backend is native:
        assert torch.equal(alone[1], shared[1])


@pytest.mark.usefixtures("instruction_set")
def test_estimates_of_reciprocals_are_for_avx2_and_by_default_for_intel():
    problem, lanes, results = make((2, 23, 301, 260, 9)), kernels.lanes(), []
    try:
        for estimates in (False, True):
            assert kernels.reciprocal_estimates(estimates) == estimates
            assert kernels.lanes() == lanes
            results.append(by_backend(native, problem))
    finally:
        default = kernels.reciprocal_estimates()
    assert default == (product_library.vendor() == "Intel")
    assert all(map(torch.equal, *results)) == (lanes != 8)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 4, 3, 5)])
def test_gradients_of_softmax_may_have_any_number_of_axes(
    backend: ModuleType, shape: tuple[int, ...]
) -> None:
    weights, gradients = torch.rand(shape).softmax(-1), torch.randn(shape)
    expected = 2 * weights * (gradients - (weights * gradients).sum(-1, keepdim=True))
    result = backend.through_softmax(gradients.clone(), weights, None, 2.0)
    torch.testing.assert_close(result, expected)
