"""NaN and inf at positions that no query may attend to must change no result and no gradient.

A masked score is never used, but 0 * NaN is NaN: in the product of weights and values, and in the
gradients of queries and of every matrix that projected the keys. So such numbers are replaced by
zeros before products. If Python may read a tensor at no cost, this is done only if a result is not
finite; otherwise always.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TypeVar

import torch

from regard.attention.prepared import AdditiveKeys
from regard.numerics.precision import at_least_float32
from regard.runtime.modes import is_exported, is_free_to_read
from regard.shapes import Bool, Float, Tensor

PreparedKeys = TypeVar("PreparedKeys")

LARGE = 1e18
"""Bound of numbers whose products are finite in float32."""


def by_position(
    function: Callable[[Tensor], Tensor], vectors: Float[Tensor, "*batch position size"]
) -> Float[Tensor, "*batch position _"]:
    """Return `function(vectors)`, for a function of single positions. A position with NaN or inf
    has no influence on the gradients of the parameters, nor on neighbouring positions: in bfloat16
    products of an odd size oneDNN multiplies a number of the next row by zero."""
    if is_exported():
        return function(vectors)
    may_read = is_free_to_read(vectors)
    if may_read and is_finite(vectors):
        return function(vectors)
    finite = vectors.isfinite().all(dim=-1, keepdim=True)
    result = function(torch.where(finite, vectors, 0))
    elsewhere = function(vectors.detach()).detach() if may_read else torch.nan
    return torch.where(finite, result, elsewhere)


def precise_scores(
    score: Callable[[PreparedKeys], Float[Tensor, "*batch target source"]],
    prepared: PreparedKeys,
    mask: Bool[Tensor, "*#batch #target #source"] | None,
) -> Float[Tensor, "*batch target source"]:
    """Return scores at least in float32, with zeros for NaN and inf in keys that no query may
    attend to.

    `prepared` is a tensor "*batch source size" or `AdditiveKeys`."""
    if mask is None:
        return at_least_float32(score(prepared))
    if is_free_to_read(mask):
        scores = at_least_float32(score(prepared))
        if is_finite(scores) or is_finite(_numbers(prepared)):
            return scores
    return at_least_float32(score(_cleaned(prepared, mask)))


def mix(
    weights: Float[Tensor, "*batch target source"],
    values: Float[Tensor, "*#batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | None,
) -> Float[Tensor, "*batch target value"]:
    """Return the context of every query, in the type of the values."""
    precise = values.to(weights.dtype)
    if mask is None:
        return (weights @ precise).to(values.dtype)
    if is_free_to_read(weights):
        context = weights @ precise
        if is_finite(context):
            return context.to(values.dtype)
    return (weights @ _finite(precise, mask)).to(values.dtype)


def without_hidden(
    vectors: Float[Tensor, "*batch source size"],
    mask: Bool[Tensor, "*#batch #target #source"],
) -> Float[Tensor, "*batch source size"]:
    """Return vectors with zeros at positions that no query may attend to. They are unchanged if the
    numbers there have no influence."""
    if is_free_to_read(vectors) and is_moderate(vectors):
        return vectors
    return torch.where(visible_positions(mask), vectors, 0)


def visible_positions(
    mask: Bool[Tensor, "*#batch #target #source"],
) -> Bool[Tensor, "*#batch #source 1"]:
    """Return which positions at least one query may attend to."""
    return (mask if mask.dim() < 2 else mask.any(dim=-2)).unsqueeze(-1)


def is_moderate(vectors: Tensor) -> bool:
    """Whether all numbers and all products of two of them are finite."""
    if not vectors.numel():
        return True
    lowest, highest = torch.aminmax(vectors.detach())
    return lowest.item() > -LARGE and highest.item() < LARGE


def is_finite(*tensors: Tensor) -> bool:
    """Whether all numbers are finite. False also if their sum overflows, which only costs time."""
    for numbers in tensors:
        if not isfinite((numbers.detach() if numbers.requires_grad else numbers).sum().item()):
            return False
    return True


def _numbers(prepared: object) -> Tensor:
    numbers = prepared.projected if isinstance(prepared, AdditiveKeys) else prepared
    if not isinstance(numbers, Tensor):
        raise TypeError(f"keys: expected a tensor or AdditiveKeys, got {type(prepared).__name__}")
    return numbers


def _cleaned(prepared: PreparedKeys, mask: Tensor) -> PreparedKeys:
    numbers = _finite(_numbers(prepared), mask)
    return AdditiveKeys(numbers) if isinstance(prepared, AdditiveKeys) else numbers  # type: ignore[return-value]


def _finite(vectors: Tensor, mask: Tensor) -> Tensor:
    """Return vectors with zeros for NaN and inf at positions that no query may attend to."""
    return torch.where(visible_positions(mask) | vectors.isfinite(), vectors, 0)
