"""How a sublayer f is put between states: dropout, addition and layer norm in one place.

PreNorm     x + dropout(f(norm(x)))        states are never normalised: a stack ends with a norm
PostNorm    norm(x + dropout(f(x)))        Vaswani et al. 2017, section 3.1
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from regard.layers.dropout import Dropout
from regard.shapes import Float, Tensor


class Residual(nn.Module, ABC):
    """In two halves, as f may give more than states."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """What f reads."""

    @abstractmethod
    def after(
        self, states: Float[Tensor, "*batch size"], change: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        """What follows from the states that came and what f made of `before(states)`."""


class PreNorm(Residual):
    """The norm is inside of the residual (Xiong et al. 2020): trains without a warmup."""

    def before(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        return self.norm(states)

    def after(
        self, states: Float[Tensor, "*batch size"], change: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        return states + self.dropout(change)


class PostNorm(Residual):
    """The norm is over the sum, as in the paper: better where it trains, which needs a warmup."""

    def before(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        return states

    def after(
        self, states: Float[Tensor, "*batch size"], change: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        return self.norm(states + self.dropout(change))
