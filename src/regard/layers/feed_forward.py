"""Sublayers that compute each position separately: their protocol, and the feed-forward network
(Vaswani et al. 2017, section 3.3). `experts` has the mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.layers.routing import Routing
from regard.names import Activation
from regard.numerics.linear import Linear, glorot_uniform
from regard.shapes import Bool, Float, Tensor

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # Hendrycks and Gimpel 2016
}


@dataclass(frozen=True)
class PositionWiseOutput:
    """States of all positions, and the experts that computed them, if there are any."""

    states: Float[Tensor, "*batch position size"]
    routing: Routing | None = None


@runtime_checkable
class PositionWise(Protocol):
    """Sublayer that computes each position separately."""

    def __call__(
        self,
        states: Float[Tensor, "batch position size"],
        mask: Bool[Tensor, "batch position"] | None = None,
    ) -> PositionWiseOutput:
        """Compute all positions. The mask is True for real positions; None if all are real. Results
        at padding have no influence."""


class FeedForward(nn.Module):
    """W2 activation(W1 x + b1) + b2."""

    def __init__(
        self, size: int, inner_size: int, activation: Activation = "relu", *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.inner = Linear(size, inner_size)
        self.outer = Linear(inner_size, size)
        self.activation = activation
        self.dropout = Dropout(dropout)
        for linear in (self.inner, self.outer):
            glorot_uniform(linear)

    def forward(
        self,
        states: Float[Tensor, "*batch position size"],
        mask: Bool[Tensor, "*batch position"] | None = None,
    ) -> PositionWiseOutput:
        """Compute all positions, padding too."""
        del mask
        # Vaswani et al. 2017, eq. 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2
        hidden = self.dropout(ACTIVATIONS[self.activation](self.inner(states)))
        return PositionWiseOutput(self.outer(hidden))
