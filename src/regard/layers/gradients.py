"""Scaling of gradients."""

from __future__ import annotations

from regard.shapes import Float, Tensor


def scale_gradient(numbers: Float[Tensor, "*axes"], factor: float) -> Float[Tensor, "*axes"]:
    """Return the numbers, bit for bit. Their gradient is multiplied by `factor`."""
    if factor == 1 or not numbers.requires_grad:
        return numbers
    fixed = numbers.detach()
    return fixed + factor * (numbers - fixed)
