"""Additive attention by the formula: the whole tensor of tanh, differentiated by PyTorch.

In float64 it is the reference; in float32 it shows the error of rounding alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def scores(queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ vector


def attend(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor],
    mask: Tensor | None = None,
    drop: Tensor | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return contexts and weights of queries, keys, vector and values."""
    queries, keys, vector, values = tensors
    result = scores(queries, keys, vector) * scale
    if mask is not None:
        result = result.masked_fill(~mask & mask.any(dim=-1, keepdim=True), -torch.inf)
    weights = torch.softmax(result, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    dropped = weights if drop is None else weights * drop
    return dropped @ values, weights
