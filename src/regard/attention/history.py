"""Scores that remember where attention was.

    coverage    c_t = sum over i < t of weights_i                     (Tu et al. 2016, section 3.1)
                score = v . tanh(W q_t + U k_j + u c_tj + b)
    location    f_t = F * weights_{t-1}, a convolution                (Chorowski et al. 2015, eq. 8)
                score = v . tanh(W q_t + U k_j + V f_tj + b)

What is remembered travels in the decoder's state, through that of attention, and nowhere else. Each
step has to know of the one before, so that no target is read whole.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention.attend import AttentionOutput, Mask
from regard.attention.checks import check_inputs
from regard.attention.hidden import by_position, mix, precise_scores
from regard.attention.masks import mask_tensor
from regard.attention.normalisers import Normaliser, Softmax
from regard.linear import Linear
from regard.shapes import Bool, Float, Tensor


@runtime_checkable
class AttentionHistory(Protocol):
    """What is kept of the weights so far, and what it says of each key: `size` numbers."""

    size: int

    def remember(
        self,
        before: Float[Tensor, "batch target source"],
        weights: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        """What the next step gets to know."""

    def __call__(
        self, before: Float[Tensor, "batch target source"]
    ) -> Float[Tensor, "batch target source size"]: ...


class Coverage(nn.Module):
    """How much of each key was taken so far, so that little is taken twice and nothing left out (Tu
    et al. 2016: linguistic coverage, every word counting as one)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.taken = Linear(1, size, bias=False)

    def forward(
        self, before: Float[Tensor, "batch target source"]
    ) -> Float[Tensor, "batch target source size"]:
        return self.taken(before[..., None])

    def remember(
        self,
        before: Float[Tensor, "batch target source"],
        weights: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        return before + weights


class Location(nn.Module):
    """The weights of the step before, through a convolution, so that attention can move on from
    where it was."""

    def __init__(self, size: int, *, filters: int = 10, width: int = 5) -> None:
        """`width` is how far a filter reaches to each side."""
        super().__init__()
        self.size = size
        self.filters = nn.Conv1d(1, filters, 2 * width + 1, padding=width, bias=False)
        self.seen = Linear(filters, size, bias=False)

    def forward(
        self, before: Float[Tensor, "batch target source"]
    ) -> Float[Tensor, "batch target source size"]:
        batch, target, source = before.shape
        found = self.filters(before.reshape(batch * target, 1, source))
        return self.seen(found.mT.unflatten(0, (batch, target)))

    def remember(
        self,
        before: Float[Tensor, "batch target source"],
        weights: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        del before
        return weights


class HistoryAdditive(nn.Module):
    """v . tanh(W q + U k_j + b + what the past says of j)."""

    def __init__(self, query_size: int, key_size: int, past: AttentionHistory) -> None:
        super().__init__()
        self.query = Linear(query_size, past.size, bias=False)
        self.key = Linear(key_size, past.size)
        self.past = past
        self.vector = nn.Parameter(torch.empty(past.size))
        nn.init.uniform_(self.vector, -(past.size**-0.5), past.size**-0.5)

    def prepare(
        self, keys: Float[Tensor, "batch source key"]
    ) -> Float[Tensor, "batch source size"]:
        """The work that depends on the keys alone."""
        return by_position(self.key, keys)

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: Float[Tensor, "batch source size"],
        before: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        asked = self.query(queries)[:, :, None] + prepared[:, None] + self.past(before)
        return (torch.tanh(asked) * self.vector).sum(dim=-1)


class HistoryAttention(nn.Module):
    """Attention by a score that remembers. Called as `Attention` is, step by step; its state is
    what the past keeps, for every hypothesis and key."""

    is_stateful = True
    additive = None

    def __init__(
        self,
        score: HistoryAdditive,
        normaliser: Normaliser | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score = score
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.dropout = nn.Dropout(dropout)

    def prepare(self, keys: Float[Tensor, "batch source key"]) -> Float[Tensor, "batch source _"]:
        """What the score needs of the keys, once a source."""
        return self.score.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> Float[Tensor, "batch 1 source"]:
        """Nothing was looked at yet."""
        return torch.zeros(len(mask), 1, mask.size(1), device=mask.device)

    def positions(self, queries: Tensor) -> None:
        """ValueError: no target can be read whole."""
        del queries
        raise ValueError("a score that remembers the step before cannot read a target whole")

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: Float[Tensor, "batch source _"],
        values: Float[Tensor, "batch source value"],
        mask: Mask | None = None,
        state: Float[Tensor, "batch target source"] | None = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend, for one step: the first if there is no state."""
        visible = mask_tensor(mask, queries)
        check_inputs(queries, prepared, values, visible)
        if state is None:
            state = queries.new_zeros(*queries.shape[:2], prepared.size(1))
        before = state.to(queries.dtype)
        scores = precise_scores(lambda keys: self.score(queries, keys, before), prepared, visible)
        weights = self.normaliser(scores, visible)
        context = mix(self.dropout(weights), values, visible)
        after = self.score.past.remember(state.to(weights.dtype), weights)
        if not need_weights:
            return AttentionOutput(context, state=after)
        return AttentionOutput(context, weights, scores, after)
