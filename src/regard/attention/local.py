"""Local attention: every query attends to a window of the source (Luong et al. 2015, section 3.2).

    local-m    p_t = t                                      the window moves with the target
    local-p    p_t = S sigmoid(v . tanh(W q_t))             the window is predicted from the query
               weights times exp(-(s - p_t)^2 / (2 (D/2)^2))

The window is p_t - D to p_t + D, and S is the length of the source. The weights of local-m sum to
one over the window, those of local-p to less, as in the paper. After the end of the source the
window of local-m stays at its last position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention.attend import AttentionOutput, Mask, attention_scores, weighted_sum
from regard.attention.checks import (
    batch_of,
    check_input,
    check_inputs,
    check_num_keys,
    check_positions,
)
from regard.attention.hidden import visible_positions
from regard.attention.masks import mask_tensor
from regard.attention.normalisers import Normaliser, Softmax
from regard.attention.scores import SCORES, PreparedKeys, Score
from regard.numerics.linear import Linear
from regard.numerics.precision import at_least_float32
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class LocalWindow:
    """Centre of the window of each query, and factors of the weights, if any."""

    centre: Float[Tensor, "batch target 1"]
    factors: Float[Tensor, "batch target source"] | None = None


@runtime_checkable
class Centre(Protocol):
    """Function from queries to their windows."""

    uses_positions: bool
    """Whether the windows depend on the target positions."""

    def __call__(
        self,
        queries: Float[Tensor, "batch target query"],
        lengths: Int[Tensor, "batch 1"],
        numbers: Int[Tensor, "batch target"] | None,
        source: Int[Tensor, "source"],
    ) -> LocalWindow: ...


class Monotonic(nn.Module):
    """local-m: the window of target position t has its centre at source position t."""

    uses_positions = True

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        lengths: Int[Tensor, "batch 1"],
        numbers: Int[Tensor, "batch target"] | None,
        source: Int[Tensor, "source"],
    ) -> LocalWindow:
        del queries, source
        if numbers is None:
            raise ValueError("state: local-m expected the target positions, got none")
        # Luong et al. 2015, section 3.2: p_t = t
        return LocalWindow(numbers.minimum(lengths - 1)[..., None].float())


class Predictive(nn.Module):
    """local-p: the centre is predicted from the query, and weights fall with the distance from
    it."""

    uses_positions = False

    def __init__(self, query_size: int, size: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.hidden = Linear(query_size, size, bias=False)
        self.vector = Linear(size, 1, bias=False)

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        lengths: Int[Tensor, "batch 1"],
        numbers: Int[Tensor, "batch target"] | None,
        source: Int[Tensor, "source"],
    ) -> LocalWindow:
        del numbers
        check_input("queries", queries, self.hidden, self)
        # Luong et al. 2015, section 3.2, eq. 9 (from memory): p_t = S sigmoid(v_p . tanh(W_p h_t))
        logits = self.vector(torch.tanh(self.hidden(queries)))
        centre = lengths[..., None] * torch.sigmoid(at_least_float32(logits))
        # Luong et al. 2015, section 3.2, eq. 10 (from memory): exp(-(s - p_t)^2 / (2 (D/2)^2))
        factors = torch.exp(-((source - centre) ** 2) / (2 * (self.width / 2) ** 2))
        return LocalWindow(centre, factors)


class LocalAttention(nn.Module):
    """Attention to a window of the source, called like `Attention`. Its state is the number of each
    target position if the window depends on it, else None."""

    is_stateful = False

    def __init__(
        self,
        score: Score,
        centre: Centre,
        width: int,
        normaliser: Normaliser | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width is {width}: expected at least 1 position on each side")
        self.score = score
        self.centre = centre
        self.width = width
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.dropout = nn.Dropout(dropout)

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""
        return self.score.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> Int[Tensor, "batch 1"] | None:
        """Return the number of the first target position, for one hypothesis a sentence."""
        if not self.centre.uses_positions:
            return None
        return torch.zeros(len(mask), 1, dtype=torch.long, device=mask.device)

    def all_steps_state(self, queries: Float[Tensor, "batch target query"]) -> Tensor | None:
        """Return the number of each target position; None if the centre does not depend on it."""
        if not self.centre.uses_positions:
            return None
        batch, target = queries.shape[:2]
        return torch.arange(target, device=queries.device).expand(batch, target)

    def forward(
        self,
        queries: Float[Tensor, "#batch target query"],
        prepared: Any,
        values: Float[Tensor, "#batch source value"],
        mask: Mask | None = None,
        state: Int[Tensor, "batch target"] | None = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. Without a mask all source positions are real. Scores are those before the mask
        and the window."""
        real = mask_tensor(mask, queries)
        check_inputs(queries, prepared, values, real)
        keys = getattr(prepared, "projected", prepared) if isinstance(self.score, SCORES) else None
        queries = _whole_batch(queries, keys if isinstance(keys, Tensor) else None, values)
        if state is not None:
            check_positions(state, queries)
        source = torch.arange(values.size(-2), device=values.device)
        if real is None:
            real = torch.ones(1, 1, len(source), dtype=torch.bool, device=values.device)
        in_source = visible_positions(real)[..., 0].expand(len(queries), len(source))
        lengths = in_source.sum(dim=-1, keepdim=True)
        window = self.centre(queries, lengths, state, source)
        # Luong et al. 2015, section 3.2: window [p_t - D, p_t + D]
        visible = real & ((source - window.centre).abs() <= self.width)
        scores = attention_scores(self.score, queries, prepared, visible)
        weights = self.normaliser(scores, visible)
        if window.factors is not None:
            # Luong et al. 2015, section 3.2, eq. 10 (from memory): a_t(s) = align(h_t, h_s) exp(..)
            weights = weights * window.factors.to(weights.dtype)
        output = weighted_sum(
            weights, scores, values, visible, self.dropout, need_weights=need_weights
        )
        return output if state is None else replace(output, state=state + 1)


def _whole_batch(
    queries: Float[Tensor, "#batch target query"],
    keys: Tensor | None,
    values: Float[Tensor, "*#batch source value"],
) -> Float[Tensor, "batch target query"]:
    """Return queries expanded to the batch. ValueError for other axes or another number of keys."""
    if queries.dim() != 3:
        raise ValueError(
            f"queries: expected (batch, target, size), got shape {tuple(queries.shape)}"
        )
    batch = batch_of(queries=queries, values=values)
    if keys is not None:
        check_num_keys(keys, values)
        batch = batch_of(queries=queries, keys=keys, values=values)
    if len(batch) != 1:
        raise ValueError(
            f"values: expected one batch axis at most, got a batch of {batch} with the queries'"
        )
    return queries if queries.shape[:-2] == batch else queries.expand(*batch, -1, -1)
