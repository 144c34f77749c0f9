"""What every backend does alike once there are weights: contexts, and the way back from them."""

from __future__ import annotations

from math import isfinite

from regard.attention.fused_additive.tiles import seen_only
from regard.linear import batch_matmul
from regard.shapes import Bool, Float, Tensor


def mix(
    weights: Float[Tensor, "batch target source"],
    values: Float[Tensor, "batch source value"],
    mask: Bool[Tensor, "#batch #target source"] | None,
    drop: Float[Tensor, "batch target source"] | None,
) -> Float[Tensor, "batch target value"]:
    """The contexts, in the type of the values. What no query sees may hold anything, NaN too."""
    kept = weights if drop is None else weights * drop
    if mask is not None and not weights.is_cpu:  # to ask whether all is finite would be to wait
        values = seen_only(values, mask)
    context = batch_matmul(kept, values.to(weights.dtype))
    if mask is not None and weights.is_cpu and not isfinite(context.sum().item()):
        context = batch_matmul(kept, seen_only(values, mask).to(weights.dtype))
    return context.to(values.dtype)


def through_mix(
    grad_context: Float[Tensor, "batch target value"],
    grad_weights: Float[Tensor, "batch target source"] | None,
    weights: Float[Tensor, "batch target source"],
    values: Float[Tensor, "batch source value"],
    drop: Float[Tensor, "batch target source"] | None,
) -> tuple[Float[Tensor, "batch target source"], Float[Tensor, "batch source value"]]:
    """The gradients of weights, with those that come to them from elsewhere, and of values; both in
    the type of the weights. Where a pair is hidden the first may be NaN, as its value may."""
    above = grad_context.to(weights.dtype)
    kept = weights if drop is None else weights * drop
    grad_values = batch_matmul(kept.mT, above)
    del kept  # before as many numbers are needed again
    found = batch_matmul(above, values.to(weights.dtype).mT)
    if drop is not None:
        found.mul_(drop)
    if grad_weights is not None:
        found.add_(grad_weights)
    return found, grad_values
