"""From all of a source to one vector, and from that to an answer: a class, or numbers.

last         the summary of the highest layer: what a recurrent encoder ends with
mean         the mean of the values
attention    sum_j weight_j value_j, weights = normalise(score(q, k_j)): one question asks,
             which is learned (Yang et al. 2016, eq. 5-7), or is the last state
answer       W vector + b, or the vector itself
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
from regard.models.memory import BuildMemory, single_memory, summary
from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class Pooled:
    """A source as one vector, and what it took of each position, where that was asked for."""

    vector: Float[Tensor, "batch value"]
    attention: tuple[AttentionBlock, ...] = ()


@runtime_checkable
class Pool(Protocol):
    """Makes one vector of a memory."""

    def __call__(self, memory: Memory, *, need_weights: bool = False) -> Pooled: ...


class LastState(nn.Module):
    """What the encoder ended with; ValueError where it gives no summary."""

    def forward(self, memory: Memory, *, need_weights: bool = False) -> Pooled:
        """Looks at nothing, so weights that are asked for are none."""
        del need_weights
        return Pooled(last_state(memory))


class MeanOfValues(nn.Module):
    """All positions alike. A source of nothing but padding gives zeros."""

    def forward(self, memory: Memory, *, need_weights: bool = False) -> Pooled:
        """Nothing is chosen, so weights that are asked for are none."""
        del need_weights
        real = memory.mask[..., None].to(memory.values.dtype)
        hidden = memory.values.masked_fill(~memory.mask[..., None], 0)
        return Pooled(hidden.sum(dim=1) / real.sum(dim=1).clamp(min=1))


class LearnedQuery(nn.Module):
    """One question for all sources. It begins small, so that at first all positions weigh nearly
    the same."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.query = nn.Parameter(torch.empty(size).normal_(std=0.01))

    def forward(self, memory: Memory) -> Float[Tensor, "batch 1 query"]:
        return self.query.expand(memory.keys.size(0), 1, -1)


class LastStateQuery(nn.Module):
    """What the encoder ended with asks what it has read."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, memory: Memory) -> Float[Tensor, "batch 1 query"]:
        return last_state(memory)[:, None]


class AttentionPool(nn.Module):
    """One question, answered with a weighted mean of the values."""

    def __init__(self, query: LearnedQuery | LastStateQuery, attention: Attention) -> None:
        super().__init__()
        self.query = query
        self.attention = attention

    def forward(self, memory: Memory, *, need_weights: bool = False) -> Pooled:
        """With `need_weights` one row of weights over the source."""
        prepared = self.attention.prepare(memory.keys)
        attended = self.attention(
            self.query(memory),
            prepared,
            memory.values,
            padding(memory.mask),
            need_weights=need_weights,
        )
        vector = attended.context[:, 0]
        if attended.weights is None or attended.scores is None:
            return Pooled(vector)
        weights, scores = (each[:, None, None] for each in (attended.weights, attended.scores))
        return Pooled(vector, (AttentionBlock("cross", weights, scores),))


class PooledHead(nn.Module):
    """One answer for a whole source: pool, then `output`."""

    def __init__(self, pool: nn.Module, output: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool = pool
        self.output = output
        self.dropout = Dropout(dropout)

    def forward(self, memories: tuple[Memory, ...], *, need_weights: bool = False) -> HeadOutput:
        """Logits or numbers "batch output"; ValueError where several memories come."""
        pooled: Pooled = self.pool(single_memory(memories), need_weights=need_weights)
        return HeadOutput(self.output(self.dropout(pooled.vector)), pooled.attention)


def last_state(memory: Memory) -> Float[Tensor, "batch hidden"]:
    """The summary of the highest layer."""
    return summary(memory).hidden[:, -1]


class HeadModel(nn.Module):
    """source -> encoder -> memory -> readout."""

    def __init__(self, encoder: nn.Module, readout: nn.Module, remember: BuildMemory) -> None:
        super().__init__()
        self.encoder = encoder
        self.readout = readout
        self.remember = remember

    def forward(self, source: Any, *, need_weights: bool = False) -> HeadOutput:
        """What is read out, and with `need_weights` what the encoder and the readout looked at."""
        encoded = self.encoder(source, need_weights=need_weights)
        output = self.readout(self.remember(encoded), need_weights=need_weights)
        return replace(output, attention=encoded.attention + output.attention)
