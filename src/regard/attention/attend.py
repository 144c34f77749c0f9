"""Queries, keys and values to contexts and weights: score, mask, normalise, mix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from regard.attention.checks import batch_of, check_inputs, check_num_keys
from regard.attention.dot import native as native_dots
from regard.attention.dot.choose import DOT_SCORES, dot_scale, torch_dot
from regard.attention.fused_additive import additive_attention, additive_scores
from regard.attention.hidden import mix, precise_scores
from regard.attention.masks import Causal, mask_tensor
from regard.attention.normalisers import Entmax15, Normaliser, Softmax, Sparsemax
from regard.attention.scores import (
    ADDITIVE_SCORES,
    SCORES,
    AdditiveScore,
    PreparedKeys,
    Score,
    prepared_keys,
)
from regard.fast_path import is_exactly, is_free_to_read, needs_formula
from regard.shapes import Bool, Float, Int, Tensor

Mask = Bool[Tensor, "*#batch #target #source"] | Causal
"""True where a query may look at a key; or the name of such a mask."""


@dataclass(frozen=True)
class AttentionOutput:
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
class AttentionFunction(Protocol):
    """What every kind of attention is, this one, a local one or one that remembers."""

    @property
    def is_stateful(self) -> bool:
        """Whether a step needs to know of the one before."""

    @property
    def additive(self) -> tuple[AdditiveScore, float] | None:
        """The score and what it is multiplied by, where weights are the softmax of an additive
        score of what comes in and nothing else; None where they are not."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
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
    ) -> AttentionOutput: ...


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

    is_stateful = False

    def start(self, mask: Bool[Tensor, "batch source"]) -> None:
        """What is remembered before the first step: nothing."""

    def positions(self, queries: Tensor) -> None:
        """What a target that is read whole is told of its positions: nothing."""

    @property
    def additive(self) -> tuple[AdditiveScore, float] | None:
        """The score and its factor, if weights are the softmax of exactly one of the additive
        scores; None if not."""
        score, softmax = self.score, self.normaliser
        if not is_exactly(score, *ADDITIVE_SCORES) or not is_exactly(softmax, Softmax):
            return None
        return cast(AdditiveScore, score), 1 / cast(Softmax, softmax).temperature

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """What the score needs of the keys, once a source."""
        return self.score.prepare(keys)

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The mask broadcasts to "*batch target source", or is CAUSAL.

        With `need_weights` scores and weights are returned, at least in float32; without it the
        context is computed by the fastest kernel. The context is the same, to rounding, in the type
        of the values. A subclass of a score, normaliser or dropout and a module with hooks are
        called as they are, and no kernel takes their place.

        A position that no query may attend to has no influence: no context, weight or gradient
        depends on it, and its gradient is zero, also if it holds NaN or inf. If some queries may
        attend to a position, NaN or inf there may also reach the contexts of the others."""
        output = self._fast(queries, prepared, values, mask, need_weights)
        if output is not None:
            return output if state is None else replace(output, state=state)
        _check(queries, prepared, values, mask)
        visible = mask_tensor(mask, queries)
        is_clean = not need_weights and self._ignores_masked_scores(values)
        cleaning_mask = None if is_clean else visible
        scores = attention_scores(self.score, queries, prepared, cleaning_mask)
        scores = _of_batch(scores, values)
        weights = self.normaliser(scores, visible)
        drop = self.dropout
        mixing = drop(weights) if drop.training or not is_exactly(drop, nn.Dropout) else weights
        context = mix(mixing, values, visible)
        if not need_weights:
            return AttentionOutput(context, state=state)
        return AttentionOutput(context, weights, scores, state)

    def _ignores_masked_scores(self, values: Tensor) -> bool:
        """Whether a masked score has no influence, also if it is NaN: without gradients, under a
        normaliser of this package. Otherwise NaN in hidden keys must be replaced."""
        if torch.is_grad_enabled() or not is_free_to_read(values):
            return False
        return is_exactly(self.normaliser, Softmax, Sparsemax, Entmax15)

    def _fast(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Attend by one kernel. None if no kernel computes exactly these parts, whether or not the
        inputs fit. Kernels run for checked inputs alone."""
        drop = self.dropout
        if not is_exactly(drop, nn.Dropout):
            return None
        dropout = drop.p if drop.training else 0.0
        if is_exactly(self.score, *DOT_SCORES):
            return self._dots(queries, prepared, values, mask, dropout, need_weights)
        additive = None if need_weights or needs_formula() else self.additive
        if additive is None:
            return None
        score, scale = additive
        context, _ = additive_attention(
            score.project_queries(queries),
            prepared_keys(score, prepared),
            score.vector,
            values,
            mask_tensor(mask, queries),
            scale=scale,
            dropout=dropout,
        )
        return AttentionOutput(context)

    def _dots(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
        dropout: float,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Dot products with softmax: of short sequences by a kernel of this package, of others by
        torch's, which returns no weights."""
        softmax = self.normaliser
        if not is_exactly(softmax, Softmax) or not isinstance(prepared, Tensor) or dropout == 1:
            return None
        if native_dots.suits(queries, prepared, values, mask):
            scale = dot_scale(self.score, softmax, queries.size(-1))
            if scale is None:
                return None
            if not need_weights:
                return AttentionOutput(
                    native_dots.attend(queries, prepared, values, mask, scale, dropout)
                )
            if dropout or torch.is_grad_enabled():
                return None
            context, weights, scores = native_dots.look(queries, prepared, values, mask, scale)
            temperature = cast(Softmax, softmax).temperature
            return AttentionOutput(
                context, weights, scores if temperature == 1 else scores * temperature
            )
        if need_weights or needs_formula():
            return None
        _check(queries, prepared, values, mask)
        scale = dot_scale(self.score, softmax, queries.size(-1))
        if scale is None or queries.size(-1) != prepared.size(-1):
            return None
        return AttentionOutput(torch_dot(queries, prepared, values, mask, scale, dropout))


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
    if scores.size(-1) != values.size(-2):
        check_num_keys(scores.mT, values)
    if scores.shape[:-2] == values.shape[:-2]:
        return scores
    batch = batch_of(scores=scores, values=values)
    return scores if scores.shape[:-2] == batch else scores.expand(*batch, *scores.shape[-2:])


def attention_scores(
    score: Score,
    queries: Float[Tensor, "*#batch target query"],
    prepared: PreparedKeys,
    mask: Bool[Tensor, "*#batch #target #source"] | None,
) -> Float[Tensor, "*batch target source"]:
    """Scores at least in float32. For the scores of this package, NaN and inf in keys that no query
    may attend to are read as zeros; another score may have prepared anything."""
    if is_exactly(score, *ADDITIVE_SCORES):
        additive = cast(AdditiveScore, score)
        asking, keys = additive.project_queries(queries), prepared_keys(additive, prepared)
        return precise_scores(
            lambda keys: additive_scores(asking, keys.projected, additive.vector), keys, mask
        )
    if not isinstance(score, SCORES):
        mask = None
    return precise_scores(partial(score, queries), prepared, mask)
