"""Residual connections of a sublayer f: dropout, addition and layer norm.

PreNorm     x + dropout(f(norm(x)))        states are not normalised, so a norm ends the stack
PostNorm    norm(x + dropout(f(x)))        Vaswani et al. 2017, section 3.1
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from regard.layers.dropout import Dropout
from regard.shapes import Float, Tensor


class Residual(nn.Module, ABC):
    """Residual connection in two calls, before and after f, as f may return more than states."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Return the input of f."""

    @abstractmethod
    def after(
        self, states: Float[Tensor, "*batch size"], change: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        """Return the new states, given `change`, the output of f for `before(states)`."""


class PreNorm(Residual):
    """Layer norm of the input of f (Xiong et al. 2020). Training needs no warmup."""

    def before(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        return self.norm(states)

    def after(
        self, states: Float[Tensor, "*batch size"], change: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        # Xiong et al. 2020, table 1 (from memory): x_{l+1} = x_l + f(LN(x_l))
        return states + self.dropout(change)


class PostNorm(Residual):
    """Layer norm of the sum, as in Vaswani et al. 2017. Training needs a warmup; the result is
    better if it converges."""

    def before(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        return states

    def after(
        self, states: Float[Tensor, "*batch size"], change: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        # Vaswani et al. 2017, section 3.1: LayerNorm(x + Sublayer(x))
        return self.norm(states + self.dropout(change))
