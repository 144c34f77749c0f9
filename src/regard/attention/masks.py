"""What may be attended to. True means visible; masks are joined with `&`."""

from __future__ import annotations

import torch

from regard.shapes import Bool, Tensor


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
