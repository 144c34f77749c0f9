"""Every score and every normaliser with its reference, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
import torch
from torch import nn

from regard.attention import (
    Additive,
    Concat,
    Cosine,
    Coverage,
    Dot,
    Entmax15,
    General,
    Location,
    ScaledDot,
    ScaledSoftmax,
    SharedAdditive,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from regard.names import EqualSizesScoreName
from regard.shapes import Bool, Float, Tensor
from tests.oracles import attention as oracle
from tests.oracles import attention_gradients as gradients

BATCH, TARGET, SOURCE, VALUE = 2, 3, 7, 11


@dataclass(frozen=True)
class ScoreCase:
    """Constructor of a score, the sizes of its queries and keys, and its formula in NumPy."""

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
        """Return copies that collect gradients."""
        return tuple(x.clone().requires_grad_() for x in (self.queries, self.keys, self.values))


def number(parameter: Tensor) -> np.ndarray:
    return parameter.detach().double().numpy()


def _additive(score: nn.Module) -> oracle.Score:
    keys, bias, queries = score.key.weight, score.key.bias, score.query.weight
    return oracle.additive(number(keys), number(bias), number(queries), number(score.vector))


def _concat(score: nn.Module) -> oracle.Score:
    projection = score.projection
    return oracle.concat(number(projection.weight), number(projection.bias), number(score.vector))


def _shared_additive(score: nn.Module) -> oracle.Score:
    shared = score.shared
    return oracle.shared_additive(number(shared.weight), number(shared.bias), number(score.vector))


SCORE_KINDS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "dot": lambda query, key, size: Dot(),
    "scaled_dot": lambda query, key, size: ScaledDot(),
    "general": lambda query, key, size: General(query, key),
    "additive": Additive,
    "concat": Concat,
    "shared_additive": lambda query, key, size: SharedAdditive(query, size),
    "cosine": lambda query, key, size: Cosine(),
}
"""Every score, made of the sizes of queries, of keys and of its own vectors."""

HISTORIES: dict[str, Callable[[int], nn.Module]] = {"coverage": Coverage, "location": Location}
"""Features of every score with an attention history, made of their size."""

HISTORY_JUDGES: dict[str, Callable[[nn.Module], Callable[..., list[float]]]] = {
    "coverage": lambda history: partial(oracle.coverage, number(history.projection.weight)[:, 0]),
    "location": lambda history: partial(
        oracle.location, number(history.projection.weight), number(history.filters.weight)[:, 0]
    ),
}

JUDGES: dict[str, Callable[[nn.Module], oracle.Score]] = {
    "dot": lambda score: oracle.dot,
    "scaled_dot": lambda score: oracle.scaled_dot,
    "general": lambda score: oracle.general(number(score.key.weight)),
    "additive": _additive,
    "concat": _concat,
    "shared_additive": _shared_additive,
    "cosine": lambda score: oracle.cosine,
}


def key_size(name: str, query: int, key: int) -> int:
    """Return the size of the keys of a score: `key` if it may differ from that of the queries."""
    return query if name in get_args(EqualSizesScoreName) else key


def _case(name: str) -> ScoreCase:
    query, key = 5, key_size(name, 5, 13)
    return ScoreCase(lambda: SCORE_KINDS[name](query, key, 17), query, key, JUDGES[name])


SCORES = {name: _case(name) for name in SCORE_KINDS}
NORMALISERS = {
    "softmax": (Softmax, oracle.softmax),
    "sparsemax": (Sparsemax, oracle.sparsemax),
    "entmax15": (Entmax15, oracle.entmax15),
    "sigmoid": (Sigmoid, oracle.sigmoid),
    "scaled_softmax": (ScaledSoftmax, oracle.scaled_softmax),
}


def _additive_formula(
    score: nn.Module, of_queries: Tensor, of_keys: Tensor, bias: Tensor
) -> gradients.Score:
    return lambda queries, keys: gradients.additive(
        queries @ of_queries.mT, keys @ of_keys.mT + bias, score.vector
    )


def _concat_formula(score: nn.Module) -> gradients.Score:
    weight, bias = score.projection.weight, score.projection.bias
    halves = weight.split([score.query_size, weight.size(1) - score.query_size], dim=1)
    return _additive_formula(score, *halves, bias)


FORMULAS: dict[str, Callable[[nn.Module], gradients.Score]] = {
    "dot": lambda score: gradients.dot,
    "scaled_dot": lambda score: gradients.scaled_dot,
    "general": lambda score: (
        lambda queries, keys: gradients.dot(queries, keys @ score.key.weight.mT)
    ),
    "additive": lambda score: _additive_formula(
        score, score.query.weight, score.key.weight, score.key.bias
    ),
    "concat": _concat_formula,
    "shared_additive": lambda score: _additive_formula(
        score, score.shared.weight, score.shared.weight, score.shared.bias
    ),
    "cosine": lambda score: gradients.cosine,
}
"""Every score as a formula that PyTorch differentiates."""


def uneven_mask() -> Bool[Tensor, "batch target source"]:
    """Return a mask with a hidden key for every query, one query without keys and one with a single
    key."""
    mask = torch.rand(BATCH, TARGET, SOURCE) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    mask[0, 1] = False
    mask[1, 2] = torch.arange(SOURCE) == 5
    return mask
