"""Queries, keys and values to contexts and weights: score, mask, normalise, mix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention import native_dots
from regard.attention.checks import batch_of, check_inputs, check_num_keys
from regard.attention.fused_additive import additive_attention, additive_scores
from regard.attention.fused_dot import dot_scale, fused_dot
from regard.attention.masks import Causal, formed
from regard.attention.normalisers import Normaliser, Softmax
from regard.attention.scores import (
    AdditiveScore,
    Prepared,
    Score,
    prepared_keys,
)
from regard.shapes import Bool, Float, Int, Tensor

Mask = Bool[Tensor, "*#batch #target #source"] | Causal
"""True where a query may look at a key; or the name of such a mask."""


@dataclass(frozen=True)
class Attended:
    """What attention gives. Weights (before dropout) and scores (before the mask) only when they
    were asked for. `state` is what is remembered until the next step: coverage and location scores
    remember weights, and of what remembers nothing it is the one that came in."""

    context: Float[Tensor, "*batch target value"]
    weights: Float[Tensor, "*batch target source"] | None = None
    scores: Float[Tensor, "*batch target source"] | None = None
    state: Any = None
    drawn: Int[Tensor, "*batch target"] | None = None
    """Where hard attention looked; -1 where it took the expected context instead."""


@runtime_checkable
class Attends(Protocol):
    """What every kind of attention is, this one, a local one or one that remembers."""

    @property
    def remembers(self) -> bool:
        """Whether a step needs to know of the one before."""

    @property
    def additive(self) -> tuple[AdditiveScore, float] | None:
        """The score and what it is multiplied by, where weights are the softmax of an additive
        score of what comes in and nothing else; None where they are not."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> Prepared:
        """What the score needs of the keys, once a source."""

    def start(self, mask: Bool[Tensor, "batch source"]) -> Any:
        """What is remembered before the first step, of one hypothesis a sentence; None for
        nothing."""

    def positions(self, queries: Float[Tensor, "batch target query"]) -> Any:
        """The state of a whole target, whose positions are all asked at once."""

    def __call__(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Any,
        values: Float[Tensor, "*#batch source value"],
        mask: Any = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> Attended: ...


class Attention(nn.Module):
    """context_i = sum over j of weight_ij value_j, with weights_i = normalise(score(q_i, k_j)).

    The target axis counts questions: target positions in training, hypotheses in search."""

    def __init__(
        self, score: Score, normaliser: Normaliser | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.score = score
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.dropout = nn.Dropout(dropout)

    remembers = False

    def start(self, mask: Bool[Tensor, "batch source"]) -> None:
        """What is remembered before the first step: nothing."""

    def positions(self, queries: Tensor) -> None:
        """What a target that is read whole is told of its positions: nothing."""

    @property
    def additive(self) -> tuple[AdditiveScore, float] | None:
        """The score and what it is multiplied by, where weights are the softmax of an additive
        score; None where they are not."""
        if isinstance(self.score, AdditiveScore) and isinstance(self.normaliser, Softmax):
            return self.score, 1 / self.normaliser.temperature
        return None

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> Prepared:
        """What the score needs of the keys, once a source."""
        return self.score.prepare(keys)

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Prepared,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> Attended:
        """Attend. The mask broadcasts to "*batch target source", or is CAUSAL. With `need_weights`
        scores and weights are returned, at least in float32; without, the fastest path runs that
        is equal to forming scores, weights and contexts one after the other."""
        if need_weights or self.additive is None:  # additive_attention checks its own
            _check(queries, prepared, values, mask)
        find = self._looked if need_weights else self._fused
        found = find(queries, prepared, values, mask)
        if found is not None:
            return replace(found, state=state)
        ask = self._precise_scores if need_weights else self.score
        scores = _of_batch(ask(queries, prepared), values)
        weights = self.normaliser(scores, formed(mask, scores))
        context = self.dropout(weights) @ values.to(weights.dtype)
        context = context.to(values.dtype)
        if not need_weights:
            return Attended(context, state=state)
        return Attended(context, weights, scores, state)

    def _looked(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Prepared,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
    ) -> Attended | None:
        """Context, weights and scores by one kernel, where there is one and nobody is learning."""
        softmax, dots = self.normaliser, self._dots(queries, prepared)
        if dots is None or not isinstance(prepared, Tensor) or not isinstance(softmax, Softmax):
            return None
        if torch.is_grad_enabled() or (self.training and self.dropout.p):
            return None
        if not native_dots.suits(queries, prepared, values, mask):
            return None
        context, weights, scores = native_dots.look(queries, prepared, values, mask, dots)
        return Attended(context, weights, scores * softmax.temperature)

    def _precise_scores(
        self, queries: Float[Tensor, "*#batch target query"], prepared: Prepared
    ) -> Float[Tensor, "*batch target source"]:
        """At least in float32, as those that a kernel makes weights of."""
        if self.additive is not None:
            score, _ = self.additive
            keys = prepared_keys(score, prepared).projected
            return additive_scores(score.ask(queries), keys, score.vector)
        scores = self.score(queries, prepared)
        return scores.to(torch.promote_types(scores.dtype, torch.float32))

    def _dots(self, queries: Tensor, prepared: Prepared) -> float | None:
        """What dot products are multiplied by under the softmax, where attention is just that."""
        if not isinstance(prepared, Tensor) or queries.size(-1) != prepared.size(-1):
            return None
        return dot_scale(self.score, self.normaliser, queries.size(-1))

    def _fused(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Prepared,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
    ) -> Attended | None:
        """The context by one kernel, where there is one for this score and normaliser."""
        dropout = self.dropout.p if self.training else 0.0
        if self.additive is not None:
            score, scale = self.additive
            asking = score.ask(queries)
            seen = formed(mask, queries)
            keys = prepared_keys(score, prepared)
            context, _ = additive_attention(
                asking, keys, score.vector, values, seen, scale=scale, dropout=dropout
            )
            return Attended(context)
        dots = self._dots(queries, prepared)
        if dots is None or not isinstance(prepared, Tensor):
            return None
        if values.dtype != queries.dtype and not torch.is_autocast_enabled(queries.device.type):
            return None
        return Attended(fused_dot(queries, prepared, values, mask, dots, dropout))


def _check(queries: Tensor, prepared: Any, values: Tensor, mask: Mask | None) -> None:
    if isinstance(mask, Causal):
        check_inputs(queries, prepared, values, None)
        if queries.size(-2) not in (1, values.size(-2)):
            raise ValueError(
                f"mask: CAUSAL needs as many queries as keys, got {queries.size(-2)} queries and "
                f"{values.size(-2)} keys; form a mask of their positions"
            )
    else:
        check_inputs(queries, prepared, values, mask)


def _of_batch(
    scores: Float[Tensor, "*#batch target source"], values: Float[Tensor, "*#batch source value"]
) -> Float[Tensor, "*batch target source"]:
    """Scores of the batch that contexts have. ValueError for another number of keys."""
    check_num_keys(scores.mT, values)
    if scores.shape[:-2] == values.shape[:-2]:
        return scores
    batch = batch_of(scores=scores, values=values)
    return scores if scores.shape[:-2] == batch else scores.expand(*batch, *scores.shape[-2:])
