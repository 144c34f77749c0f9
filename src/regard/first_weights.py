"""The numbers that training begins with, where they are not torch's own."""

from __future__ import annotations

from torch import nn


def glorot_uniform(linear: nn.Linear, num_parts: int = 1) -> None:
    """Glorot and Bengio's uniform weights (2010, eq. 16), in each by itself of so many matrices of
    one size that are stacked in the layer, and no bias."""
    for part in linear.weight.chunk(num_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
