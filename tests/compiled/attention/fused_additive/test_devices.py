"""Tiles on a device that Python waits for. No GPU is needed: tensors of the device "meta" have no
numbers, so reading one raises, and the results are compared on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard import kernels
from regard.attention import Additive, Attention
from regard.compiled.attention import fused_additive
from regard.compiled.attention.fused_additive import (
    additive_attention,
    additive_scores,
    backends,
    operator,
    tiled,
    tiles,
)
from regard.compiled.attention.fused_additive import memory as memories
from regard.compiled.attention.fused_additive.spans import spans_of
from tests.attention.parts import SCORES, uneven_mask
from tests.compiled.attention.fused_additive.problems import make


def as_on_meta(problem):
    numbers = {
        name: value.to("meta") if isinstance(value, torch.Tensor) else value
        for name, value in vars(problem).items()
    }
    return type(problem)(**numbers)


@pytest.mark.parametrize("mask", ["none", "padding"])
def test_forward_and_backward_do_not_synchronise(mask: str):
    problem = as_on_meta(make((2, 3, 5, 7, 11), mask=mask, dropout=True))
    arguments = problem.queries, problem.memory, problem.drop
    context, weights = tiled.attend(*arguments)
    assert context.shape == (2, 3, 11)
    grads = (problem.grad_context, problem.grad_weights)
    assert len(tiled.differentiate(*grads, *arguments, weights)) == 4
    queries, keys, vector, _ = problem.tensors
    scores = tiled.score(queries, keys, vector)
    assert len(tiled.differentiate_score(scores, queries, keys, vector)) == 3
    tiled.differentiate_queries(scores, queries, problem.memory)
    tiled.differentiate_keys(scores, queries, problem.memory)


def test_a_module_step_does_not_synchronise():
    attention, inputs = Attention(Additive(5, 13, 17)).to("meta"), SCORES["additive"].inputs()
    queries, keys, values = (x.float().to("meta") for x in vars(inputs).values())
    for learns in (False, True):
        with torch.set_grad_enabled(learns):
            prepared = attention.prepare(keys)
            attention(queries, prepared, values, uneven_mask().to("meta"))


@pytest.mark.parametrize("largeness", [1.0, 60.0])
@pytest.mark.parametrize("hidden", [None, torch.nan])
def test_results_equal_those_of_the_cpu(monkeypatch, largeness: float, hidden: float | None):
    problem = make((2, 3, 5, 7, 11), mask="padding", largeness=largeness)
    queries, memory = problem.queries, problem.memory
    expected = tiled.attend(queries, memory)
    above = (problem.grad_context, problem.grad_weights)
    gradients = tiled.differentiate(*above, queries, memory)
    if hidden is not None:
        nobody = ~problem.mask.any(dim=1)[..., None]
        keys, values = (x.masked_fill(nobody, hidden) for x in (memory.keys, memory.values))
        memory = replace(memory, keys=keys, values=values)
    monkeypatch.setattr(tiles, "is_slow_to_read", lambda device: True)
    results = tiled.attend(queries, memory)
    torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5)
    results = tiled.differentiate(*above, queries, memory)
    torch.testing.assert_close(results[:3], gradients[:3], rtol=1e-4, atol=1e-4)


def test_mask_spans_are_computed_once_per_loop(monkeypatch):
    masks = []

    def counted(mask):
        masks.append(mask)
        return spans_of(mask)

    monkeypatch.setattr(memories, "spans_of", counted)
    problem = make((2, 3, 5, 7, 11), mask="uneven")
    memory = problem.memory
    for step in range(3):
        now = slice(step, step + 1)
        tiled.differentiate_queries(problem.grad_weights[:, now], problem.queries[:, now], memory)
    assert len(masks) == 1


def test_a_changed_mask_has_new_spans():
    """A change of `mask.data`, or of memory that NumPy shares, does not raise a tensor's
    version."""
    problem = make((2, 3, 5, 7, 11)).to(torch.float64)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[:, :, 3:] = False
    before, _ = additive_attention(*problem.tensors, mask)
    mask.data.logical_not_()
    after, _ = additive_attention(*problem.tensors, mask)
    expected, _ = additive_attention(*problem.tensors, mask.clone())
    torch.testing.assert_close(after, expected)
    assert not torch.allclose(after, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_sources_without_keys_give_zero_contexts(dtype):
    queries, keys, values = (torch.randn(2, n, 4, dtype=dtype) for n in (3, 0, 0))
    mask = torch.ones(2, 3, 0, dtype=torch.bool)
    context, weights = additive_attention(queries, keys, torch.randn(4, dtype=dtype), values, mask)
    assert weights.shape == (2, 3, 0)
    assert context.equal(torch.zeros(2, 3, 4, dtype=dtype))


def test_autocast_is_off_inside_of_the_operators(monkeypatch):
    """CUDA's autocast computes `mv` in half precision, and the CPU's `bmm`."""
    seen = []

    class Watched:
        def __getattr__(self, name: str):
            def run(*arguments):
                seen.append((name, torch.is_autocast_enabled("cpu")))
                return getattr(tiled, name)(*arguments)

            return run

    for module in (fused_additive, operator):
        monkeypatch.setattr(module, "choose", lambda *tensors: Watched())
    queries, keys, vector, values = (x.requires_grad_() for x in make().tensors)
    with torch.autocast("cpu", torch.bfloat16):
        context, weights = additive_attention(queries, keys, vector, values)
        scores = additive_scores(queries, keys, vector)
        (context.sum() + weights.square().sum() + scores.sum()).backward()
        with torch.no_grad():
            additive_attention(queries, keys, vector, values)
            additive_scores(queries, keys, vector)
    names = ["attend", "score", "differentiate_score", "differentiate", "attend", "score"]
    assert sorted(seen) == sorted((name, False) for name in names)


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize("learns", [False, True])
def test_under_autocast_float32_stays_precise(monkeypatch, library: bool, learns: bool):
    if not library:
        monkeypatch.setattr(kernels, "_LIBRARY", None)
    tensors = make((4, 20, 40, 64, 32)).tensors
    expected = additive_attention(*tensors)
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(learns):
        results = additive_attention(*(x.clone().requires_grad_(learns) for x in tensors))
    torch.testing.assert_close(results, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("error", [ModuleNotFoundError, ImportError, AttributeError])
def test_missing_or_old_triton_is_not_used(monkeypatch, error: type[Exception]):
    def fail(name: str) -> None:
        raise error(f"module 'triton' has no attribute 'knobs' ({name})")

    monkeypatch.setattr(backends, "import_module", fail)
    assert backends._triton.__wrapped__() is None
