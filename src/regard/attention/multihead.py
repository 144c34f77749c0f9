"""Multi-head attention (Vaswani et al. 2017, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention.attend import Attention, Mask
from regard.attention.checks import check_input, check_mask
from regard.attention.hidden import by_position
from regard.attention.scores import PreparedKeys
from regard.numerics.linear import Linear, glorot_uniform
from regard.shapes import Float, Tensor

Rotate = Callable[[Tensor], Tensor]
"""Function that rotates queries or keys "*batch head position part" by their positions."""


@dataclass(frozen=True)
class PreparedHeads:
    """Prepared keys and values of every head, stored in the state of a decoder. Indexed by
    sentences like a tensor."""

    keys: PreparedKeys
    values: Float[Tensor, "*batch head source value"]

    def __getitem__(self, index: Any) -> PreparedHeads:
        return PreparedHeads(self.keys[index], self.values[index])


@dataclass(frozen=True)
class ProjectedQueries:
    """Projected queries of self-attention, with the prepared keys and values."""

    queries: Float[Tensor, "*batch head position part"]
    prepared: PreparedHeads


@dataclass(frozen=True)
class MultiHeadOutput:
    """`AttentionOutput` of all heads: the context is joined, weights and scores have a head
    axis."""

    context: Float[Tensor, "*batch target size"]
    weights: Float[Tensor, "*batch head target source"] | None
    scores: Float[Tensor, "*batch head target source"] | None
    state: Any


class Heads(nn.Module):
    """Attention of every head to projected keys and values, joined and projected to the output.

    `attention` is built for queries and keys of the size of one head and shared by all heads, which
    differ by their projections only. So a score with parameters has as many of them for any number
    of heads.
    """

    def __init__(self, size: int, num_heads: int, attention: Attention) -> None:
        super().__init__()
        if num_heads < 1 or size % num_heads:
            raise ValueError(
                f"size: expected a multiple of num_heads, got size {size} and num_heads {num_heads}"
            )
        self.num_heads = num_heads
        self.attention = attention
        self.output = Linear(size, size)
        glorot_uniform(self.output)

    def split(
        self, vectors: Float[Tensor, "*batch position size"]
    ) -> Float[Tensor, "*batch head position part"]:
        """Split vectors into one part for each head, of size / num_heads numbers."""
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
        # Vaswani et al. 2017, section 3.2.2: head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
        output = self.attention(
            queries,
            prepared.keys,
            prepared.values,
            mask,
            state,
            need_weights=need_weights,
        )
        joined = output.context.transpose(-3, -2).flatten(-2)
        # Vaswani et al. 2017, section 3.2.2: MultiHead(Q, K, V) = Concat(head_1, .., head_h) W^O
        context = self.output(joined)
        return MultiHeadOutput(context, output.weights, output.scores, output.state)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with queries, keys and values from different inputs.

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
        """Project keys and values, once a source."""
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
    """Multi-head self-attention. One product projects the input: W_q, W_k and W_v are one weight.

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
        """Project states to queries, and to keys and values as the score takes them."""
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
        """Attend from every position to those that the mask allows."""
        projected = self.project(states, rotate)
        return self.heads(projected.queries, projected.prepared, mask, need_weights=need_weights)
