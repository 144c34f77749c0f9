"""Types of at least float32, for sums and exponentials."""

from __future__ import annotations

import torch

from regard.shapes import Tensor


def precise_type(dtype: torch.dtype) -> torch.dtype:
    """Return float32, or the type itself if it is larger."""
    return torch.promote_types(dtype, torch.float32)


def at_least_float32(numbers: Tensor) -> Tensor:
    """Return the numbers in float32, or in their own type if it is larger."""
    if numbers.dtype is torch.float32:
        return numbers
    return numbers.to(precise_type(numbers.dtype))
