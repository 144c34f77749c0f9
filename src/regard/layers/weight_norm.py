"""Weight normalisation (Salimans and Kingma 2016): the length and the direction of each row of a
weight are separate parameters.

    w = g v / |v|        eq. 2, for each output

Accelerated by `compiled/weight_norm.py`, equal in tests/compiled/test_frozen_modes.py.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.numerics.linear import affine
from regard.shapes import Float, Tensor


class NormalisedLinear(nn.Module):
    """Linear layer with weight normalisation."""

    def __init__(self, in_features: int, out_features: int, *, std: float) -> None:
        """The first weight is drawn from N(0, std), the bias is zero."""
        super().__init__()
        self.direction = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.normal_(self.direction, std=std)
        self.gain = nn.Parameter(self.direction.detach().norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(out_features))

    @property
    def weight(self) -> Float[Tensor, "output input"]:
        """The weight g v / |v|."""
        # Salimans and Kingma 2016, eq. 2: w = g v / |v|
        return self.direction * (self.gain / self.direction.norm(dim=1))[:, None]

    def forward(self, inputs: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        return affine(inputs, self.weight, self.bias)
