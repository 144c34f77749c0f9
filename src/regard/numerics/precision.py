"""Sums and exponentials in types of at least float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch

from regard.shapes import Float, Tensor


def precise_type(dtype: torch.dtype) -> torch.dtype:
    """Return float32, or the type itself if it is larger."""
    return torch.promote_types(dtype, torch.float32)


def at_least_float32(numbers: Tensor) -> Tensor:
    """Return the numbers in float32, or in their own type if it is larger."""
    if numbers.dtype is torch.float32:
        return numbers
    return numbers.to(precise_type(numbers.dtype))


def log_of_mean(
    logits: Sequence[Float[Tensor, "*batch vocabulary"]],
) -> Float[Tensor, "*batch vocabulary"]:
    """Return the logarithm of the mean probabilities of several models, at least in float32."""
    logs = [model.log_softmax(dim=-1, dtype=precise_type(model.dtype)) for model in logits]
    return reduce(torch.logaddexp, logs) - math.log(len(logs))
