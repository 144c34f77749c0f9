"""Problems of every shape, size and mask, their results, and the accuracy of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import torch
from hypothesis import strategies as st

from regard.attention import causal, padding, window
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.shapes import Bool, Float, Tensor
from tests.oracles import additive as oracle

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Problem:
    """Inputs of additive attention, and the gradients of its outputs."""

    queries: Float[Tensor, "batch target size"]
    keys: Float[Tensor, "batch source size"]
    vector: Float[Tensor, "size"]
    values: Float[Tensor, "batch source value"]
    grad_context: Float[Tensor, "batch target value"]
    grad_weights: Float[Tensor, "batch target source"]
    mask: Bool[Tensor, "#batch #target source"] | None = None
    drop: Float[Tensor, "batch target source"] | None = None
    scale: float = 1.0

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.queries, self.keys, self.vector, self.values

    @property
    def memory(self) -> AdditiveMemory:
        return AdditiveMemory(self.keys, self.vector, self.values, self.mask, self.scale)

    def to(self, dtype: torch.dtype) -> Problem:
        numbers = {
            name: value.to(dtype)
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return replace(self, **numbers)


def make(
    sizes: tuple[int, int, int, int, int] = (2, 3, 5, 7, 11),
    *,
    largeness: float = 1.0,
    mask: str = "none",
    dropout: bool = False,
    seed: int = 0,
) -> Problem:
    """Return a problem in float32 with these sizes of batch, target, source, vectors and values."""
    batch, target, source, size, value = sizes
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    drop = torch.rand(batch, target, source, generator=generator) < 0.7
    return Problem(
        largeness * normal(batch, target, size),
        largeness * normal(batch, source, size),
        normal(size) * size**-0.5,
        normal(batch, source, value),
        normal(batch, target, value),
        normal(batch, target, source),
        make_mask(mask, batch, target, source, generator),
        drop / 0.7 if dropout else None,
        0.7,
    )


MASKS = ("none", "padding", "one row", "causal", "window", "uneven", "nothing")


def make_mask(
    kind: str, batch: int, target: int, source: int, generator: torch.Generator
) -> Tensor | None:
    lengths = torch.randint(0, source + 1, (batch, 1), generator=generator)
    real = padding(torch.arange(source) < lengths)
    match kind:
        case "padding":
            return real
        case "one row":
            return real[:1]
        case "causal":
            return causal(max(target, source))[None, :target, :source]
        case "window":
            return window(target, source, 1)[None] & real
        case "uneven":
            return torch.rand(batch, target, source, generator=generator) < 0.6
        case "nothing":
            return torch.zeros(1, 1, source, dtype=torch.bool)
    return None


def problems(*, size: int = 40) -> st.SearchStrategy[Problem]:
    """Draw problems of any sizes from one, with numbers from small to far out of range."""
    few = st.integers(1, 9)
    return st.builds(
        make,
        st.tuples(st.integers(1, 4), few, st.integers(1, 40), st.integers(1, size), few),
        largeness=st.sampled_from([0.1, 1.0, 3.0, 10.0, 30.0, 100.0]),
        mask=st.sampled_from(MASKS),
        dropout=st.booleans(),
        seed=st.integers(0, 2**30),
    )


Attend = Callable[..., tuple[Tensor, Tensor]]


def by_formula(problem: Problem) -> Tensors:
    """Return context, weights and the four gradients by the formula in PyTorch."""
    leaves = tuple(tensor.clone().requires_grad_() for tensor in problem.tensors)
    result = oracle.attend(leaves, problem.mask, problem.drop, problem.scale)
    above = (problem.grad_context, problem.grad_weights)
    gradients = torch.autograd.grad(result, leaves, above)
    return (*(tensor.detach() for tensor in result), *gradients)


def by_backend(backend: ModuleType, problem: Problem, *, saved: bool = True) -> Tensors:
    """Return context, weights and the four gradients by a backend, with or without saved
    weights."""
    queries, memory, drop = problem.queries, problem.memory, problem.drop
    context, weights = backend.attend(queries, memory, drop)
    gradients = backend.differentiate(
        problem.grad_context,
        problem.grad_weights,
        queries,
        memory,
        drop,
        weights if saved else None,
    )
    return context, weights, *gradients


def assert_as_right_as_float32(result: Tensors, problem: Problem, floor: float = 1.0) -> None:
    """Errors against float64 are at most three times those of the formula in float32, plus one unit
    in the last place of a bound on the numbers that are summed."""
    exact, plain = by_formula(problem.to(torch.float64)), by_formula(problem)
    unit = torch.finfo(torch.float32).eps
    bounds = _summed(problem.to(torch.float64))
    names = ("context", "weights", "queries", "keys", "vector", "values")
    for name, ours, theirs, right, bound in zip(names, result, plain, exact, bounds, strict=True):
        error = (ours.double() - right).abs().max().item()
        allowed = 3 * (theirs.double() - right).abs().max().item() + floor * unit * bound
        assert error <= allowed, f"{name}: error {error:.2e}, allowed {allowed:.2e}"


def _summed(problem: Problem) -> list[float]:
    """Return bounds on the numbers that each result is a sum of. An error of one unit in the last
    place of a score affects all later results."""
    strength = max(1.0, problem.vector.abs().sum().item() * problem.scale)
    drop = 1.0 if problem.drop is None else problem.drop.max().item()
    values = problem.values.abs().max().item() * drop
    above = values * problem.grad_context.abs().sum(dim=-1).max().item()
    above += problem.grad_weights.abs().max().item()
    batch, rows, _ = problem.queries.shape
    largest = problem.vector.abs().max().item() * problem.scale
    pairwise = above * strength * largest
    return [
        strength * values,
        strength,
        pairwise,
        pairwise * rows**0.5,
        above * strength * problem.scale * (batch * rows) ** 0.5,
        strength * drop * problem.grad_context.abs().max().item() * rows**0.5,
    ]
