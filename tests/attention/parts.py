"""Every score with its judge, every normaliser with its judge, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from regard.attention import (
    Additive,
    Concat,
    Cosine,
    Dot,
    Entmax15,
    General,
    ScaledDot,
    SharedAdditive,
    Softmax,
    Sparsemax,
)
from regard.shapes import Bool, Float, Tensor
from tests.oracles import attention as oracle

BATCH, TARGET, SOURCE, VALUE = 2, 3, 7, 11


@dataclass(frozen=True)
class ScoreCase:
    """How a score is made, the sizes of its queries and keys, and the same formula in numpy."""

    make: Callable[[], nn.Module]
    query: int
    key: int
    judge: Callable[[nn.Module], oracle.Score]

    def inputs(self, dtype: torch.dtype = torch.float64) -> Inputs:
        return Inputs(
            torch.randn(BATCH, TARGET, self.query, dtype=dtype),
            torch.randn(BATCH, SOURCE, self.key, dtype=dtype),
            torch.randn(BATCH, SOURCE, VALUE, dtype=dtype),
        )


@dataclass(frozen=True)
class Inputs:
    queries: Float[Tensor, "batch target query"]
    keys: Float[Tensor, "batch source key"]
    values: Float[Tensor, "batch source value"]

    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        """Copies that collect gradients."""
        return tuple(x.clone().requires_grad_() for x in (self.queries, self.keys, self.values))


def number(parameter: Tensor) -> np.ndarray:
    return parameter.detach().double().numpy()


def _additive(score: nn.Module) -> oracle.Score:
    keys, bias, queries = score.key.weight, score.key.bias, score.query.weight
    return oracle.additive(number(keys), number(bias), number(queries), number(score.vector))


def _concat(score: nn.Module) -> oracle.Score:
    joined = score.joined
    return oracle.concat(number(joined.weight), number(joined.bias), number(score.vector))


def _shared_additive(score: nn.Module) -> oracle.Score:
    shared = score.shared
    return oracle.shared_additive(number(shared.weight), number(shared.bias), number(score.vector))


SCORES = {
    "dot": ScoreCase(Dot, 5, 5, lambda _: oracle.dot),
    "scaled_dot": ScoreCase(ScaledDot, 5, 5, lambda _: oracle.scaled_dot),
    "general": ScoreCase(
        lambda: General(5, 13), 5, 13, lambda score: oracle.general(number(score.key.weight))
    ),
    "additive": ScoreCase(lambda: Additive(5, 13, 17), 5, 13, _additive),
    "concat": ScoreCase(lambda: Concat(5, 13, 17), 5, 13, _concat),
    "shared_additive": ScoreCase(lambda: SharedAdditive(5, 17), 5, 5, _shared_additive),
    "cosine": ScoreCase(Cosine, 5, 5, lambda _: oracle.cosine),
}
NORMALISERS = {
    "softmax": (Softmax, oracle.softmax),
    "sparsemax": (Sparsemax, oracle.sparsemax),
    "entmax15": (Entmax15, oracle.entmax15),
}


def uneven_mask() -> Bool[Tensor, "batch target source"]:
    """Something hidden for every query, everything for one, one key visible for another."""
    mask = torch.rand(BATCH, TARGET, SOURCE) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    mask[0, 1] = False
    mask[1, 2] = torch.arange(SOURCE) == 5
    return mask
