"""The feed-forward network, which computes each position separately (Vaswani et al. 2017, section
3.3). A mixture of experts (`experts`) may take its place."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.names import Activation
from regard.numerics.linear import Linear, glorot_uniform
from regard.shapes import Float, Tensor

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # Hendrycks and Gimpel 2016
}


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
        self, states: Float[Tensor, "*batch position size"]
    ) -> Float[Tensor, "*batch position size"]:
        # Vaswani et al. 2017, eq. 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2
        hidden = self.dropout(ACTIVATIONS[self.activation](self.inner(states)))
        return self.outer(hidden)
