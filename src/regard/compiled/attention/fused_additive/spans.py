"""Visible spans of the rows of a mask, so that tiles of hidden columns are not computed."""

from __future__ import annotations

import torch

from regard.shapes import Bool, Tensor

Spans = list[list[list[int]]]
"""First visible column and the column after the last, for every sentence and row."""


def spans_of(mask: Bool[Tensor, "batch target source"]) -> Spans:
    """Return the spans of a mask."""
    num_columns = mask.size(2)
    if not num_columns:  # argmax takes no empty axis
        return [[[0, 0]] * mask.size(1)] * mask.size(0)
    marks = mask.to(torch.uint8)
    first = marks.argmax(dim=2)
    end = num_columns - marks.flip(2).argmax(dim=2)
    sees = mask.any(dim=2)
    first, end = first.where(sees, num_columns), end.where(sees, 0)
    return torch.stack([first, end], dim=-1).tolist()
