"""Attention masks. True means that a query may attend to a key; masks are combined with `&`."""

from __future__ import annotations

import torch

from regard.runtime.modes import is_free_to_read
from regard.shapes import Bool, Float, Tensor


class Causal:
    """Name of the mask `causal`, for kernels that compute it themselves."""


CAUSAL = Causal()


def padding(mask: Bool[Tensor, "batch source"]) -> Bool[Tensor, "batch 1 source"]:
    """Return a mask of real keys, the same for every query.

    keys  a b c . .
          x x x - -      one row for every query
    """
    return mask[:, None]


def causal(length: int, device: torch.device | None = None) -> Bool[Tensor, "target source"]:
    """Return a mask in which position i attends to itself and to those before it.

    x - - -
    x x - -
    x x x -
    x x x x
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def mask_tensor(
    mask: Bool[Tensor, "..."] | Causal | None, rows: Float[Tensor, "*batch target _"]
) -> Bool[Tensor, "..."] | None:
    """Return a mask as a tensor; `rows` has the queries."""
    return causal(rows.size(-2), rows.device) if isinstance(mask, Causal) else mask


def none_if_full(mask: Bool[Tensor, "..."]) -> Bool[Tensor, "..."] | None:
    """Return None if the mask is True everywhere and Python can read it at no cost, else the mask.
    Python would wait for a GPU, and a compiler records one path."""
    if is_free_to_read(mask) and bool(mask.all()):
        return None
    return mask


def window(
    target: int, source: int, width: int, device: torch.device | None = None
) -> Bool[Tensor, "target source"]:
    """Return a mask in which position i attends to positions i - width to i + width. With width 1:

    x x - -
    x x x -
    - x x x
    """
    rows = torch.arange(target, device=device)[:, None]
    columns = torch.arange(source, device=device)
    return (rows - columns).abs() <= width
