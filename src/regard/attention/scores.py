"""Score functions of query and key, each by its published formula.

`prepare(keys)` computes the part that depends on the keys only, once a source. A score is called
with queries and the prepared keys: a tensor, or a record of tensors indexed by sentences like a
tensor.

Additive scores form a tensor of batch x target x source x size here. They are accelerated by
`compiled/attention/scores.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.checks import (
    batch_of,
    check_input,
    check_projected,
    check_scored,
    check_vectors,
)
from regard.attention.hidden import by_position
from regard.attention.prepared import AdditiveKeys
from regard.numerics.linear import Linear, affine
from regard.runtime.modes import is_cast
from regard.shapes import Float, Tensor

__all__ = [
    "Additive",
    "Concat",
    "Cosine",
    "Dot",
    "General",
    "PreparedKeys",
    "ScaledDot",
    "Score",
    "SharedAdditive",
]

PreparedKeys = Float[Tensor, "..."] | AdditiveKeys
"""Keys prepared by a score."""


@runtime_checkable
class Score(Protocol):
    """Score of every query and key."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only."""

    def __call__(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Any,
    ) -> Float[Tensor, "*batch target source"]:
        """Return one number for every query and key."""


class Dot(nn.Module):
    """q . k (Luong et al. 2015, section 3.1, "dot"). Queries and keys have one size."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source key"]:
        return keys

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Float[Tensor, "*#batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        check_pairs("Dot", queries, prepared)
        # Luong et al. 2015, section 3.1: score(h_t, h_s) = h_t . h_s
        return _dots(queries, prepared)


class ScaledDot(nn.Module):
    """q . k / sqrt(size) (Vaswani et al. 2017, eq. 1). Queries and keys have one size."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source key"]:
        return keys

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Float[Tensor, "*#batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        check_pairs("ScaledDot", queries, prepared)
        # Vaswani et al. 2017, eq. 1, scores: Q K^T / sqrt(d_k)
        return _dots(queries, prepared) / math.sqrt(queries.size(-1))


class General(nn.Module):
    """q W k (Luong et al. 2015, section 3.1, "general"; also called multiplicative)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = Linear(key_size, query_size, bias=False)

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source query"]:
        check_input("keys", keys, self.key, self)
        return by_position(self.key, keys)

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Float[Tensor, "*#batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        if queries.size(-1) != prepared.size(-1) and isinstance(self.key, Linear):
            _check_size("queries", queries, self.key.out_features, self)
            _check_size("prepared", prepared, self.key.out_features, self)
        check_pairs("General", queries, prepared)
        # Luong et al. 2015, section 3.1: score(h_t, h_s) = h_t . (W_a h_s)
        return _dots(queries, prepared)


class Additive(nn.Module):
    """v . tanh(W1 k + W2 q) (Bahdanau et al. 2015, appendix A.1.2).

    Only the key projection has a bias, as both projections are added."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.key = Linear(key_size, size)
        self.query = Linear(query_size, size, bias=False)
        self.vector = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.vector, -(size**-0.5), size**-0.5)

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        check_input("keys", keys, self.key, self)
        return AdditiveKeys(by_position(self.key, keys))

    @property
    def query_weight(self) -> Float[Tensor, "size query"]:
        return self.query.weight

    def project_queries(
        self, queries: Float[Tensor, "*batch target query"]
    ) -> Float[Tensor, "*batch target size"]:
        check_input("queries", queries, self.query, self)
        return self.query(queries)

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        projected, keys = _checked(self, self.project_queries(queries), prepared)
        # Bahdanau et al. 2015, A.1.2: e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j)
        # Yang et al. 2016, eq. 5 if query is learned: u_t = tanh(W_w h_t + b_w)
        hidden = torch.tanh(projected[..., None, :] + keys[..., None, :, :])
        return hidden @ self.vector.to(hidden.dtype)


class Concat(nn.Module):
    """v . tanh(W [q; k]) (Luong et al. 2015, section 3.1, "concat").

    W [q; k] is W_q q + W_k k for the two halves of W, so [q; k] is not built for every pair."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.projection = nn.Linear(query_size + key_size, size)  # only its halves are used
        self.vector = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.vector, -(size**-0.5), size**-0.5)

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        _check_size("keys", keys, self.projection.in_features - self.query_size, self)
        weight, bias = self.projection.weight[:, self.query_size :], self.projection.bias
        return AdditiveKeys(by_position(lambda vectors: affine(vectors, weight, bias), keys))

    @property
    def query_weight(self) -> Float[Tensor, "size query"]:
        return self.projection.weight[:, : self.query_size]

    def project_queries(
        self, queries: Float[Tensor, "*batch target query"]
    ) -> Float[Tensor, "*batch target size"]:
        _check_size("queries", queries, self.query_size, self)
        return affine(queries, self.query_weight)

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        projected, keys = _checked(self, self.project_queries(queries), prepared)
        # Luong et al. 2015, section 3.1: score(h_t, h_s) = v_a . tanh(W_a [h_t; h_s])
        hidden = torch.tanh(projected[..., None, :] + keys[..., None, :, :])
        return hidden @ self.vector.to(hidden.dtype)


class SharedAdditive(nn.Module):
    """v . tanh(W (q + k)): one matrix for queries and keys, as in many tutorials. Queries and keys
    have one size."""

    def __init__(self, key_size: int, size: int) -> None:
        super().__init__()
        self.shared = Linear(key_size, size)
        self.vector = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.vector, -(size**-0.5), size**-0.5)

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        check_input("keys", keys, self.shared, self)
        return AdditiveKeys(by_position(self.shared, keys))

    @property
    def query_weight(self) -> Float[Tensor, "size query"]:
        return self.shared.weight

    def project_queries(
        self, queries: Float[Tensor, "*batch target query"]
    ) -> Float[Tensor, "*batch target size"]:
        if queries.size(-1) != self.shared.in_features:
            raise ValueError(
                "queries: SharedAdditive expected the size of its keys, "
                f"size {self.shared.in_features}, got size {queries.size(-1)}; use Additive or "
                "Concat"
            )
        _check_size("queries", queries, self.shared.in_features, self)
        return affine(queries, self.query_weight)

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        projected, keys = _checked(self, self.project_queries(queries), prepared)
        hidden = torch.tanh(projected[..., None, :] + keys[..., None, :, :])
        return hidden @ self.vector.to(hidden.dtype)


class Cosine(nn.Module):
    """The cosine of the angle between query and key (Graves et al. 2014, eq. 6, without its
    sharpness, which is the normaliser's temperature). Queries and keys have one size."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source key"]:
        check_vectors(keys=keys)
        return by_position(partial(F.normalize, dim=-1), keys)

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Float[Tensor, "*#batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        check_pairs("Cosine", queries, prepared)
        # Graves et al. 2014, eq. 6: K[u, v] = u . v / (|u| |v|)
        return _dots(F.normalize(queries, dim=-1), prepared)


SCORES = (Dot, ScaledDot, General, Additive, Concat, SharedAdditive, Cosine)
ADDITIVE_SCORES = (Additive, Concat, SharedAdditive)
AdditiveScore = Additive | Concat | SharedAdditive
"""Scores `vector` . tanh(`project_queries`(query) + prepared key). `project_queries` multiplies by
`query_weight`, a weight of a layer of the score."""


def _dots(
    queries: Float[Tensor, "*#batch target size"], keys: Float[Tensor, "*#batch source size"]
) -> Float[Tensor, "*batch target source"]:
    """Return dot products, in the larger of the two types."""
    if queries.dtype == keys.dtype:
        return queries @ keys.mT
    dtype = torch.promote_types(queries.dtype, keys.dtype)
    return queries.to(dtype) @ keys.to(dtype).mT


def prepared_keys(score: nn.Module, prepared: Any) -> AdditiveKeys:
    """Return the keys that an additive score prepared. ValueError for keys it did not prepare."""
    if isinstance(prepared, AdditiveKeys):
        return prepared
    came = type(prepared).__name__
    if isinstance(prepared, Tensor):
        came = f"a tensor of shape {tuple(prepared.shape)}"
    raise ValueError(
        f"prepared: expected the keys as {type(score).__name__}.prepare returns them, got {came}; "
        "call attention.prepare(keys) once a source and pass its result"
    )


def _checked(
    score: AdditiveScore, queries: Float[Tensor, "*#batch target size"], prepared: Any
) -> tuple[Float[Tensor, "*#batch target size"], Float[Tensor, "*#batch source size"]]:
    """Return projected queries and keys. ValueError for shapes that do not fit."""
    keys = prepared_keys(score, prepared).projected
    check_scored(queries, keys, score.vector)
    if queries.shape[:-2] != keys.shape[:-2]:
        batch_of(queries=queries, keys=keys)
    return queries, keys


def _check_size(name: str, vectors: Tensor, size: int, score: General | AdditiveScore) -> None:
    weight = score.key.weight if isinstance(score, General) else score.vector
    check_projected(name, vectors, size, weight, score)


def check_pairs(name: str, queries: Tensor, keys: Tensor) -> None:
    """Check that queries and prepared keys can be multiplied."""
    check_vectors(queries=queries, keys=keys)
    if queries.size(-1) != keys.size(-1):
        raise ValueError(
            f"{name}: expected queries and keys of one size, got queries of size "
            f"{queries.size(-1)} and keys of size {keys.size(-1)}; use General, Additive or Concat"
        )
    if name == "ScaledDot" and queries.size(-1) == 0:
        raise ValueError("queries: ScaledDot divides by the root of their size, got size 0")
    if queries.dtype != keys.dtype and not is_cast(queries):
        raise ValueError(
            f"keys: expected {queries.dtype} as the queries, got {keys.dtype}; "
            "use keys.to(queries.dtype)"
        )
    if queries.shape[:-2] != keys.shape[:-2]:
        batch_of(queries=queries, keys=keys)
