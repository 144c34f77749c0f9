"""Every score and every normaliser with its reference, and inputs for them."""

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
    joined = score.joined
    return oracle.concat(number(joined.weight), number(joined.bias), number(score.vector))


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

TWO_SIZES = ("general", "additive", "concat")
"""Scores whose keys may have another size than the queries."""

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
    return key if name in TWO_SIZES else query


def _case(name: str) -> ScoreCase:
    query, key = 5, key_size(name, 5, 13)
    return ScoreCase(lambda: SCORE_KINDS[name](query, key, 17), query, key, JUDGES[name])


SCORES = {name: _case(name) for name in SCORE_KINDS}
NORMALISERS = {
    "softmax": (Softmax, oracle.softmax),
    "sparsemax": (Sparsemax, oracle.sparsemax),
    "entmax15": (Entmax15, oracle.entmax15),
}


def formula_of(score: nn.Module) -> gradients.Score:
    """Return the score of a module as a formula that PyTorch differentiates."""

    def scores(queries: Tensor, keys: Tensor) -> Tensor:
        match score:
            case Dot():
                return gradients.dot(queries, keys)
            case ScaledDot():
                return gradients.scaled_dot(queries, keys)
            case Cosine():
                return gradients.cosine(queries, keys)
            case General():
                return gradients.dot(queries, keys @ score.key.weight.mT)
            case Additive():
                of_queries, of_keys, bias = score.query.weight, score.key.weight, score.key.bias
            case Concat():
                weight, bias = score.joined.weight, score.joined.bias
                of_queries, of_keys = weight.split([queries.size(-1), keys.size(-1)], dim=1)
            case _:
                of_queries = of_keys = score.shared.weight
                bias = score.shared.bias
        asking = queries @ of_queries.mT
        return gradients.additive(asking, keys @ of_keys.mT + bias, score.vector)

    return scores


def uneven_mask() -> Bool[Tensor, "batch target source"]:
    """Return a mask with a hidden key for every query, one query without keys and one with a single
    key."""
    mask = torch.rand(BATCH, TARGET, SOURCE) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    mask[0, 1] = False
    mask[1, 2] = torch.arange(SOURCE) == 5
    return mask
