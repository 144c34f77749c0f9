"""What may be attended to. True means visible; masks are joined with `&`."""

from __future__ import annotations

import torch

from regard.fast_path import is_free_to_read
from regard.shapes import Bool, Float, Tensor


class Causal:
    """The mask `causal` by its name, for kernels that need not be shown what it hides."""


CAUSAL = Causal()


def padding(mask: Bool[Tensor, "batch source"]) -> Bool[Tensor, "batch 1 source"]:
    """Every query sees the real keys and not the padding.

    keys  a b c . .
          x x x - -      the same row for every query
    """
    return mask[:, None]


def causal(length: int, device: torch.device | None = None) -> Bool[Tensor, "target source"]:
    """Position i sees itself and what came before it.

    x - - -
    x x - -
    x x x -
    x x x x
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def mask_tensor(
    mask: Bool[Tensor, "..."] | Causal | None, rows: Float[Tensor, "*batch target _"]
) -> Bool[Tensor, "..."] | None:
    """A mask as a tensor, for as many queries as there are rows."""
    return causal(rows.size(-2), rows.device) if isinstance(mask, Causal) else mask


def none_if_full(mask: Bool[Tensor, "..."]) -> Bool[Tensor, "..."] | None:
    """The mask, or None where it is seen at no cost that it hides nothing. A GPU would have to be
    waited for, and a compiler wants one way through."""
    if is_free_to_read(mask) and bool(mask.all()):
        return None
    return mask


def window(
    target: int, source: int, width: int, device: torch.device | None = None
) -> Bool[Tensor, "target source"]:
    """Position i sees the positions from i - width to i + width. With width 1:

    x x - -
    x x x -
    - x x x
    """
    rows = torch.arange(target, device=device)[:, None]
    columns = torch.arange(source, device=device)
    return (rows - columns).abs() <= width
