"""How well a key answers a query: the published scores, each as its formula.

Every score has `prepare(keys)`, which does the work that depends on the keys alone (once a source,
however many queries come), and is called with queries and what it prepared.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.shapes import Float, Tensor


@runtime_checkable
class Score(Protocol):
    """What every score is."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source prepared"]:
        """The work that depends on the keys alone."""

    def __call__(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        """One number for every query and key."""


class Dot(nn.Module):
    """q . k (Luong et al. 2015, section 3.1, "dot"). Queries and keys have one size."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source key"]:
        return keys

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        _check_equal("Dot", queries, prepared)
        return queries @ prepared.mT


class ScaledDot(nn.Module):
    """q . k / sqrt(size) (Vaswani et al. 2017, eq. 1). Queries and keys have one size."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source key"]:
        return keys

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        _check_equal("ScaledDot", queries, prepared)
        return queries @ prepared.mT / math.sqrt(queries.size(-1))


class General(nn.Module):
    """q W k (Luong et al. 2015, section 3.1, "general"; also called multiplicative)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_size, query_size, bias=False)

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source query"]:
        return self.key(keys)

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        return queries @ prepared.mT


class Additive(nn.Module):
    """v . tanh(W1 k + W2 q) (Bahdanau et al. 2015, appendix A.1.2).

    One bias, on the keys' side, serves both: they are added."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_size, size)
        self.query = nn.Linear(query_size, size, bias=False)
        self.vector = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.vector, -(size**-0.5), size**-0.5)

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source size"]:
        return self.key(keys)

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        return _tanh_score(self.query(queries), prepared, self.vector)


class Concat(nn.Module):
    """v . tanh(W [q; k]) (Luong et al. 2015, section 3.1, "concat").

    W [q; k] is W_q q + W_k k for the two halves of W, so [q; k] is never built for every pair."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.joined = nn.Linear(query_size + key_size, size)
        self.vector = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.vector, -(size**-0.5), size**-0.5)

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source size"]:
        return F.linear(keys, self.joined.weight[:, self.query_size :], self.joined.bias)

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        asked = F.linear(queries, self.joined.weight[:, : self.query_size])
        return _tanh_score(asked, prepared, self.vector)


class SharedAdditive(nn.Module):
    """v . tanh(W (q + k)): one matrix for both, as many tutorials have it. Queries and keys have
    one size."""

    def __init__(self, key_size: int, size: int) -> None:
        super().__init__()
        self.shared = nn.Linear(key_size, size)
        self.vector = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.vector, -(size**-0.5), size**-0.5)

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source size"]:
        return self.shared(keys)

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        if queries.size(-1) != self.shared.in_features:
            raise ValueError(
                f"SharedAdditive uses one matrix for queries and keys of size "
                f"{self.shared.in_features}, but queries of size {queries.size(-1)} came: "
                "use Additive or Concat"
            )
        return _tanh_score(F.linear(queries, self.shared.weight), prepared, self.vector)


class Cosine(nn.Module):
    """The cosine of the angle between query and key (Graves et al. 2014, eq. 6, without its
    sharpness, which is the normaliser's temperature). Queries and keys have one size."""

    def prepare(
        self, keys: Float[Tensor, "*batch source key"]
    ) -> Float[Tensor, "*batch source key"]:
        return F.normalize(keys, dim=-1)

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: Float[Tensor, "*batch source prepared"],
    ) -> Float[Tensor, "*batch target source"]:
        _check_equal("Cosine", queries, prepared)
        return F.normalize(queries, dim=-1) @ prepared.mT


def _tanh_score(
    queries: Float[Tensor, "*batch target size"],
    keys: Float[Tensor, "*batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "*batch target source"]:
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ vector


def _check_equal(name: str, queries: Tensor, keys: Tensor) -> None:
    if queries.size(-1) != keys.size(-1):
        raise ValueError(
            f"{name} needs queries and keys of one size, but queries of size {queries.size(-1)} "
            f"and keys of size {keys.size(-1)} came: use General, Additive or Concat"
        )
