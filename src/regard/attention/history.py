"""Additive scores with a history of the attention weights: coverage and location.

    coverage    c_t = sum over i < t of weights_i                     (Tu et al. 2016, section 3.1)
                score = v . tanh(W q_t + U k_j + u c_tj + b)
    location    f_t = F * weights_{t-1}, a convolution                (Chorowski et al. 2015, eq. 8)
                score = v . tanh(W q_t + U k_j + V f_tj + b)

The history is the state of the attention, which is a part of the decoder's state. A step needs the
state of the step before, so steps run in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention.attend import AttentionOutput, Mask, weighted_sum
from regard.attention.checks import check_inputs
from regard.attention.hidden import by_position, precise_scores
from regard.attention.masks import mask_tensor
from regard.attention.normalisers import Normaliser, Softmax
from regard.numerics.linear import Linear
from regard.shapes import Bool, Float, Tensor


@runtime_checkable
class AttentionHistory(Protocol):
    """History of attention weights, and its features for each key: vectors of this `size`."""

    size: int

    def update(
        self,
        before: Float[Tensor, "batch target source"],
        weights: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        """Return the history after a step with these weights."""

    def __call__(
        self, before: Float[Tensor, "batch target source"]
    ) -> Float[Tensor, "batch target source size"]:
        """Return the features of the history for each key."""


class Coverage(nn.Module):
    """Sum of the weights of each key so far, so that few keys are attended to twice or never (Tu et
    al. 2016: linguistic coverage, with a fertility of one for every word)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.projection = Linear(1, size, bias=False)

    def forward(
        self, before: Float[Tensor, "batch target source"]
    ) -> Float[Tensor, "batch target source size"]:
        return self.projection(before[..., None])

    def update(
        self,
        before: Float[Tensor, "batch target source"],
        weights: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        # Tu et al. 2016, section 3.1: C_ij = C_{i-1,j} + a_ij, with a fertility of 1
        return before + weights


class Location(nn.Module):
    """Convolution over the weights of the step before, so that attention can move on from its last
    position (Chorowski et al. 2015)."""

    def __init__(self, size: int, *, filters: int = 10, width: int = 5) -> None:
        """`width` is the number of positions on each side of a filter's centre."""
        super().__init__()
        self.size = size
        self.filters = nn.Conv1d(1, filters, 2 * width + 1, padding=width, bias=False)
        self.projection = Linear(filters, size, bias=False)

    def forward(
        self, before: Float[Tensor, "batch target source"]
    ) -> Float[Tensor, "batch target source size"]:
        batch, target, source = before.shape
        # Chorowski et al. 2015, eq. 8: f_i = F * a_{i-1}
        features = self.filters(before.reshape(batch * target, 1, source))
        return self.projection(features.mT.unflatten(0, (batch, target)))

    def update(
        self,
        before: Float[Tensor, "batch target source"],
        weights: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        del before
        return weights


class HistoryAdditive(nn.Module):
    """v . tanh(W q + U k_j + b + f_j), with the features f_j of the history for key j."""

    def __init__(self, query_size: int, key_size: int, history: AttentionHistory) -> None:
        super().__init__()
        self.query = Linear(query_size, history.size, bias=False)
        self.key = Linear(key_size, history.size)
        self.history = history
        self.vector = nn.Parameter(torch.empty(history.size))
        nn.init.uniform_(self.vector, -(history.size**-0.5), history.size**-0.5)

    def prepare(
        self, keys: Float[Tensor, "batch source key"]
    ) -> Float[Tensor, "batch source size"]:
        """Compute the part of the score that depends on the keys only."""
        return by_position(self.key, keys)

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: Float[Tensor, "batch source size"],
        before: Float[Tensor, "batch target source"],
    ) -> Float[Tensor, "batch target source"]:
        # Tu et al. 2016, section 3.1 if score is coverage: v . tanh(W s + U h_j + V C_ij)
        # Chorowski et al. 2015, eq. 9 (from memory) if score is location:
        #     w . tanh(W s_{i-1} + V h_j + U f_ij + b)
        sums = self.query(queries)[:, :, None] + prepared[:, None] + self.history(before)
        return (torch.tanh(sums) * self.vector).sum(dim=-1)


class HistoryAttention(nn.Module):
    """Attention by a score with a history, called like `Attention`, step by step. Its state is the
    history "batch hypothesis source"."""

    is_stateful = True

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
        """Compute the part of the score that depends on the keys only, once a source."""
        return self.score.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> Float[Tensor, "batch 1 source"]:
        """Return the history before the first step: zeros."""
        return torch.zeros(len(mask), 1, mask.size(1), device=mask.device)

    def all_steps_state(self, queries: Tensor) -> None:
        """Raise ValueError: steps must run in order."""
        del queries
        raise ValueError(
            "attention with a history computes one step at a time; call it step by step"
        )

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
        """Attend for one step. Without a state it is the first step."""
        visible = mask_tensor(mask, queries)
        check_inputs(queries, prepared, values, visible)
        if state is None:
            state = queries.new_zeros(*queries.shape[:2], prepared.size(1))
        before = state.to(queries.dtype)
        scores = precise_scores(lambda keys: self.score(queries, keys, before), prepared, visible)
        weights = self.normaliser(scores, visible)
        output = weighted_sum(
            weights, scores, values, visible, self.dropout, need_weights=need_weights
        )
        return replace(output, state=self.score.history.update(state.to(weights.dtype), weights))
