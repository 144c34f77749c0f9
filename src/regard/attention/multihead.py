"""Several attentions side by side (Vaswani et al. 2017, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention.attend import Attention, Mask
from regard.attention.checks import check_input, check_mask
from regard.attention.hidden import by_position
from regard.attention.scores import PreparedKeys
from regard.linear import Linear, glorot_uniform
from regard.shapes import Float, Tensor

Rotate = Callable[[Tensor], Tensor]
"""What positions do to the queries and keys of every head, "*batch head position part"."""


@dataclass(frozen=True)
class PreparedHeads:
    """Keys (as the score prepared them) and values of every head: what a decoder's state keeps. It
    is indexed by sentences, as a tensor is."""

    keys: PreparedKeys
    values: Float[Tensor, "*batch head source value"]

    def __getitem__(self, index: Any) -> PreparedHeads:
        return PreparedHeads(self.keys[index], self.values[index])


@dataclass(frozen=True)
class ProjectedQueries:
    """What a sequence that looks at itself asks with, and what it asks."""

    queries: Float[Tensor, "*batch head position part"]
    prepared: PreparedHeads


@dataclass(frozen=True)
class MultiHeadOutput:
    """What `AttentionOutput` holds, with the heads joined in the context and apart in the rest."""

    context: Float[Tensor, "*batch target size"]
    weights: Float[Tensor, "*batch head target source"] | None
    scores: Float[Tensor, "*batch head target source"] | None
    state: Any


class Heads(nn.Module):
    """Attend in every head, join, project: what follows once queries, keys and values are there.

    `attention` is built for queries and keys of the size of one head and is shared by the heads,
    which differ by their projections; a score with parameters then costs no more with more heads.
    """

    def __init__(self, size: int, num_heads: int, attention: Attention) -> None:
        super().__init__()
        if num_heads < 1 or size % num_heads:
            raise ValueError(
                f"size must be a multiple of num_heads, but size {size} and num_heads {num_heads} "
                "came"
            )
        self.num_heads = num_heads
        self.attention = attention
        self.output = Linear(size, size)
        glorot_uniform(self.output)

    def split(
        self, vectors: Float[Tensor, "*batch position size"]
    ) -> Float[Tensor, "*batch head position part"]:
        """A part of every vector for each head, `part` being size / num_heads."""
        return vectors.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)

    def prepare(
        self,
        keys: Float[Tensor, "*batch head source part"],
        values: Float[Tensor, "*batch head source value"],
    ) -> PreparedHeads:
        return PreparedHeads(self.attention.prepare(keys), values)

    def forward(
        self,
        queries: Float[Tensor, "*batch head target part"],
        prepared: PreparedHeads,
        mask: Mask | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> MultiHeadOutput:
        """Attend in every head. The mask broadcasts to "*batch target source": heads share it."""
        if isinstance(mask, Tensor):
            axes = (*queries.shape[:-3], queries.size(-2), prepared.values.size(-2))
            check_mask(mask, axes, queries.device)
            mask = mask.unsqueeze(-3) if mask.dim() > 2 else mask
        attended = self.attention(
            queries,
            prepared.keys,
            prepared.values,
            mask,
            state,
            need_weights=need_weights,
        )
        joined = attended.context.transpose(-3, -2).flatten(-2)
        context = self.output(joined)
        return MultiHeadOutput(context, attended.weights, attended.scores, attended.state)


class MultiHeadAttention(nn.Module):
    """Queries, keys and values from different places.

        queries --W_q--> head x target x part \\
        keys    --W_k--> head x source x part  > attend --join--> W_o --> context
        values  --W_v--> head x source x part /
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        value_size: int,
        size: int,
        num_heads: int,
        attention: Attention,
    ) -> None:
        super().__init__()
        self.query = Linear(query_size, size)
        self.key = Linear(key_size, size)
        self.value = Linear(value_size, size)
        self.heads = Heads(size, num_heads, attention)
        for linear in (self.query, self.key, self.value):
            glorot_uniform(linear)

    def prepare(
        self,
        keys: Float[Tensor, "*batch source key"],
        values: Float[Tensor, "*batch source value"],
    ) -> PreparedHeads:
        """Project what is looked at, once a source."""
        check_input("keys", keys, self.key, self)
        check_input("values", values, self.value, self)
        split = self.heads.split
        keys, values = by_position(self.key, keys), by_position(self.value, values)
        return self.heads.prepare(split(keys), split(values))

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: PreparedHeads,
        mask: Mask | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> MultiHeadOutput:
        """Attend. The mask broadcasts to "*batch target source": heads share it."""
        check_input("queries", queries, self.query, self)
        split = self.heads.split(self.query(queries))
        return self.heads(split, prepared, mask, state, need_weights=need_weights)


class MultiHeadSelfAttention(nn.Module):
    """Queries, keys and values from one input, by one product: W_q, W_k and W_v lie in one weight.

    states --W_qkv--> queries, keys, values --attend--> W_o --> context
    """

    def __init__(self, size: int, num_heads: int, attention: Attention) -> None:
        super().__init__()
        self.projection = Linear(size, 3 * size)
        self.heads = Heads(size, num_heads, attention)
        glorot_uniform(self.projection, 3)

    def project(
        self, states: Float[Tensor, "*batch position size"], rotate: Rotate | None = None
    ) -> ProjectedQueries:
        """Queries, and keys and values as the score takes them."""
        check_input("states", states, self.projection, self)
        queries, keys, values = map(self.heads.split, self.projection(states).chunk(3, dim=-1))
        if rotate is not None:
            queries, keys = rotate(queries), rotate(keys)
        return ProjectedQueries(queries, self.heads.prepare(keys, values))

    def forward(
        self,
        states: Float[Tensor, "*batch position size"],
        mask: Mask | None = None,
        rotate: Rotate | None = None,
        *,
        need_weights: bool = False,
    ) -> MultiHeadOutput:
        """Every position looks at all that the mask shows it."""
        asking = self.project(states, rotate)
        return self.heads(asking.queries, asking.prepared, mask, need_weights=need_weights)
