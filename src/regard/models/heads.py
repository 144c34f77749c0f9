"""Classification and regression heads: pooling of a source to one vector, then an output layer.

last         the summary of the highest layer: the last state of a recurrent encoder
mean         the mean of the values
attention    sum_j weight_j value_j, weights = normalise(score(q, k_j)), with one query q: learned
             (Yang et al. 2016, eq. 5-7), or the last state
output       W vector + b, or the vector itself
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention import Attention
from regard.attention.masks import padding
from regard.layers.dropout import Dropout
from regard.models.contracts import AttentionBlock, HeadOutput, Memory
from regard.models.memory import BuildMemory, masked_mean, single_memory, summary
from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class Pooled:
    """A source as one vector, with the attention to each position if `need_weights` was set."""

    vector: Float[Tensor, "batch value"]
    attention: tuple[AttentionBlock, ...] = ()


@runtime_checkable
class Pool(Protocol):
    """Pooling of a memory to one vector."""

    def __call__(self, memory: Memory, *, need_weights: bool = False) -> Pooled: ...


class LastState(nn.Module):
    """Last state of the encoder. ValueError if it has no summary."""

    def forward(self, memory: Memory, *, need_weights: bool = False) -> Pooled:
        """Pool a memory. There is no attention, so `need_weights` has no effect."""
        del need_weights
        return Pooled(last_state(memory))


class MeanOfValues(nn.Module):
    """Mean of the values over real positions; zeros if all positions are padding."""

    def forward(self, memory: Memory, *, need_weights: bool = False) -> Pooled:
        """Pool a memory. There is no attention, so `need_weights` has no effect."""
        del need_weights
        return Pooled(masked_mean(memory.values, memory.mask))


class LearnedHeadQuery(nn.Module):
    """One learned query for all sources. Its initial values are small, so that the first weights
    are nearly uniform."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(size).normal_(std=0.01))

    def forward(self, memory: Memory) -> Float[Tensor, "batch 1 query"]:
        return self.vector.expand(memory.keys.size(0), 1, -1)


class LastStateHeadQuery(nn.Module):
    """The last state of the encoder as the query."""

    def forward(self, memory: Memory) -> Float[Tensor, "batch 1 query"]:
        return last_state(memory)[:, None]


class AttentionPool(nn.Module):
    """Attention of one query to the source: a weighted sum of the values."""

    def __init__(self, query: LearnedHeadQuery | LastStateHeadQuery, attention: Attention) -> None:
        super().__init__()
        self.query = query
        self.attention = attention

    def forward(self, memory: Memory, *, need_weights: bool = False) -> Pooled:
        """Pool a memory. With `need_weights` return one row of weights over the source."""
        prepared = self.attention.prepare(memory.keys)
        output = self.attention(
            self.query(memory),
            prepared,
            memory.values,
            padding(memory.mask),
            need_weights=need_weights,
        )
        vector = output.context[:, 0]
        if output.weights is None or output.scores is None:
            return Pooled(vector)
        weights, scores = output.weights[:, None, None], output.scores[:, None, None]
        return Pooled(vector, (AttentionBlock("cross", weights, scores),))


class PooledHead(nn.Module):
    """Head with one output for a source: pooling, dropout, then the `output` layer."""

    def __init__(self, pool: Pool, output: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool = pool
        self.output = output
        self.dropout = Dropout(dropout)

    def forward(self, memories: tuple[Memory, ...], *, need_weights: bool = False) -> HeadOutput:
        """Return logits or numbers "batch output". ValueError for several memories."""
        pooled = self.pool(single_memory(memories), need_weights=need_weights)
        return HeadOutput(self.output(self.dropout(pooled.vector)), pooled.attention)


def last_state(memory: Memory) -> Float[Tensor, "batch hidden"]:
    """Return the summary of the highest layer."""
    return summary(memory).hidden[:, -1]


class HeadModel(nn.Module):
    """source -> encoder -> memory -> head."""

    def __init__(self, encoder: nn.Module, head: nn.Module, build_memory: BuildMemory) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.build_memory = build_memory

    def forward(self, source: Any, *, need_weights: bool = False) -> HeadOutput:
        """Return the output of the head, with the penalties and measures of encoder and head. With
        `need_weights` it has the attention of both."""
        encoded = self.encoder(source, need_weights=need_weights)
        output = self.head(self.build_memory(encoded), need_weights=need_weights)
        return replace(
            output,
            attention=encoded.attention + output.attention,
            penalties=encoded.penalties + output.penalties,
            measures=encoded.measures + output.measures,
        )
