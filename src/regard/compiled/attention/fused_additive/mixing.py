"""Contexts from weights and values, and their gradients, for every backend."""

from __future__ import annotations

from math import isfinite

from regard.compiled.attention.fused_additive.tiles import visible_only
from regard.numerics.linear import batch_matmul
from regard.shapes import Bool, Float, Tensor


def mix(
    weights: Float[Tensor, "batch target source"],
    values: Float[Tensor, "batch source value"],
    mask: Bool[Tensor, "#batch #target source"] | None,
    drop: Float[Tensor, "batch target source"] | None,
) -> Float[Tensor, "batch target value"]:
    """Return contexts in the type of the values. NaN at positions that no query may attend to has
    no influence."""
    dropped = weights if drop is None else weights * drop
    if mask is not None and not weights.is_cpu:  # Python would wait to see whether all is finite
        values = visible_only(values, mask)
    context = batch_matmul(dropped, values.to(weights.dtype))
    if mask is not None and weights.is_cpu and not isfinite(context.sum().item()):
        context = batch_matmul(dropped, visible_only(values, mask).to(weights.dtype))
    return context.to(values.dtype)


def through_mix(
    grad_context: Float[Tensor, "batch target value"],
    grad_weights: Float[Tensor, "batch target source"] | None,
    weights: Float[Tensor, "batch target source"],
    values: Float[Tensor, "batch source value"],
    drop: Float[Tensor, "batch target source"] | None,
) -> tuple[Float[Tensor, "batch target source"], Float[Tensor, "batch source value"]]:
    """Return the gradients of weights and values, in the type of the weights. `grad_weights` is
    added to that of the weights. The gradient of a hidden weight may be NaN, as its value may
    be."""
    grad_context = grad_context.to(weights.dtype)
    dropped = weights if drop is None else weights * drop
    grad_values = batch_matmul(dropped.mT, grad_context)
    del dropped  # frees its memory before an equally large tensor is allocated
    total = batch_matmul(grad_context, values.to(weights.dtype).mT)
    if drop is not None:
        total.mul_(drop)
    if grad_weights is not None:
        total.add_(grad_weights)
    return total, grad_values
