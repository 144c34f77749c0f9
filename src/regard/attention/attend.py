"""Attention: score, mask, normalise, mix.

`plain_attention` is the formula, and `scores` has the score functions. `Attention` gives the same
numbers, to rounding: it calls a kernel if a kernel implements exactly its score, normaliser and
dropout, else `plain_attention`.
"""

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
from regard.attention.normalisers import (
    Entmax15,
    Normaliser,
    ScaledSoftmax,
    Sigmoid,
    Softmax,
    Sparsemax,
)
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
"""Mask that is True where a query may attend to a key, or CAUSAL."""


@dataclass(frozen=True)
class AttentionOutput:
    """Context of every query. Weights (before dropout) and scores (before the mask) are None unless
    `need_weights` was set. `state` is the state of attention with a history (`history.py`,
    `local.py`) after the step; other attention returns the state that it was called with."""

    context: Float[Tensor, "*batch target value"]
    weights: Float[Tensor, "*batch target source"] | None = None
    scores: Float[Tensor, "*batch target source"] | None = None
    state: Any = None
    drawn: Int[Tensor, "*batch target"] | None = None
    """Source positions drawn by hard attention; -1 for an expected context."""


@runtime_checkable
class AttentionFunction(Protocol):
    """Attention of any kind: global, local, hard, or with a history."""

    @property
    def is_stateful(self) -> bool:
        """Whether a step needs the state of the step before, so that steps must run in order."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""

    def start(self, mask: Bool[Tensor, "batch source"]) -> Any:
        """Return the state before the first step, with one hypothesis a sentence; None for
        attention without state."""

    def all_steps_state(self, queries: Float[Tensor, "batch target query"]) -> Any:
        """Return the state for one call that computes all target positions: the number of each
        position (local attention), or whether a source gets the expected context (hard attention).
        None for attention without state. ValueError for attention that needs one call a step."""

    def __call__(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Any,
        values: Float[Tensor, "*#batch source value"],
        mask: Any = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The mask broadcasts to "*batch target source". `state` is that of the previous
        step, and the output has the new one; None for attention without state."""


def plain_attention(
    attention: Attention,
    queries: Float[Tensor, "*#batch target query"],
    prepared: PreparedKeys,
    values: Float[Tensor, "*#batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | None,
    *,
    need_weights: bool = False,
) -> AttentionOutput:
    """Compute attention by its formula: score, normalise with the mask, drop out, mix. The context
    of every fast path is the same, to rounding."""
    scores = attention.scores(queries, prepared, values, mask, need_weights=need_weights)
    weights = attention.normaliser(scores, mask)
    return weighted_sum(weights, scores, values, mask, attention.dropout, need_weights=need_weights)


def weighted_sum(
    weights: Float[Tensor, "*batch target source"],
    scores: Float[Tensor, "*batch target source"],
    values: Float[Tensor, "*#batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | None,
    dropout: nn.Dropout,
    *,
    need_weights: bool,
) -> AttentionOutput:
    """Return the sum of the values, multiplied by their weights after dropout. The output has
    weights and scores with `need_weights` only."""
    has_effect = dropout.training or not is_exactly(dropout, nn.Dropout)
    context = mix(dropout(weights) if has_effect else weights, values, mask)
    return AttentionOutput(context, weights, scores) if need_weights else AttentionOutput(context)


class Attention(nn.Module):
    """context_i = sum over j of weight_ij value_j, with weights_i = normalise(score(q_i, k_j)).

    The target axis counts queries: target positions in training, hypotheses in search."""

    def __init__(
        self, score: Score, normaliser: Normaliser | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.score = score
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.dropout = nn.Dropout(dropout)

    is_stateful = False

    def start(self, mask: Bool[Tensor, "batch source"]) -> None:
        """Return None: this attention has no state."""

    def all_steps_state(self, queries: Tensor) -> None:
        """Return None: this attention has no state."""

    @property
    def additive(self) -> tuple[AdditiveScore, float] | None:
        """The additive score and the factor of its scores, if the weights are the softmax of
        exactly one of the package's additive scores; otherwise None."""
        score, softmax = self.score, self.normaliser
        if not is_exactly(score, *ADDITIVE_SCORES) or not is_exactly(softmax, Softmax):
            return None
        return cast(AdditiveScore, score), 1 / cast(Softmax, softmax).temperature

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""
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

        With `need_weights` the output has scores and weights, at least in float32. Without it the
        context is computed by the fastest kernel. The context is the same, to rounding, in the type
        of the values. A subclass of a score, normaliser or dropout and a module with hooks are
        called; no kernel replaces them.

        A position that no query may attend to has no influence: no context, weight or gradient
        depends on it, and its gradient is zero, also if it holds NaN or inf. If some queries may
        attend to a position, NaN or inf there may also reach the contexts of the others.

        ValueError or TypeError for shapes, types or devices that do not fit."""
        output = self._fast_path(queries, prepared, values, mask, need_weights)
        if output is None:
            _check(queries, prepared, values, mask)
            visible = mask_tensor(mask, queries)
            output = plain_attention(
                self, queries, prepared, values, visible, need_weights=need_weights
            )
        return output if state is None else replace(output, state=state)

    def scores(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
        *,
        need_weights: bool,
    ) -> Float[Tensor, "*batch target source"]:
        """Return scores of the batch of the contexts, at least in float32. With `need_weights` or
        gradients, NaN and inf in keys that no query may attend to are read as zeros."""
        if not need_weights and self._ignores_masked_scores(values):
            mask = None
        return _of_batch(attention_scores(self.score, queries, prepared, mask), values)

    def _ignores_masked_scores(self, values: Tensor) -> bool:
        """Whether a masked score has no influence, also if it is NaN: without gradients, with a
        normaliser of this package. Otherwise NaN in hidden keys must be replaced."""
        if torch.is_grad_enabled() or not is_free_to_read(values):
            return False
        return is_exactly(self.normaliser, Softmax, Sparsemax, Entmax15, Sigmoid, ScaledSoftmax)

    def _fast_path(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Attend by one kernel: for dot products (`dot/`) and additive scores (`fused_additive/`)
        with softmax. None if no kernel computes exactly these parts, whether or not the inputs fit.
        Kernels run for checked inputs only."""
        drop = self.dropout
        if not is_exactly(drop, nn.Dropout):
            return None
        dropout = drop.p if drop.training else 0.0
        if is_exactly(self.score, *DOT_SCORES):
            return self._dot_path(queries, prepared, values, mask, dropout, need_weights)
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

    def _dot_path(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
        dropout: float,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Attend by dot products with softmax: short sequences by the package's kernel, others by
        PyTorch's, which returns no weights."""
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
            context, weights, scores = native_dots.attend_with_weights(
                queries, prepared, values, mask, scale
            )
            temperature = cast(Softmax, softmax).temperature
            scores = scores if temperature == 1 else scores * temperature
            return AttentionOutput(context, weights, scores)
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
                f"mask: CAUSAL expected equal numbers of queries and keys, got {queries.size(-2)} "
                f"queries and {values.size(-2)} keys; use a tensor as the mask"
            )
    else:
        check_inputs(queries, prepared, values, mask)


def _of_batch(
    scores: Float[Tensor, "*#batch target source"], values: Float[Tensor, "*#batch source value"]
) -> Float[Tensor, "*batch target source"]:
    """Return scores expanded to the batch of the contexts. ValueError for another number of
    keys."""
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
    """Return scores at least in float32. With a mask, the package's scores read NaN and inf in keys
    that no query may attend to as zeros. Keys prepared by another score are not changed."""
    if is_exactly(score, *ADDITIVE_SCORES):
        additive = cast(AdditiveScore, score)
        projected, keys = additive.project_queries(queries), prepared_keys(additive, prepared)
        return precise_scores(
            lambda keys: additive_scores(projected, keys.projected, additive.vector), keys, mask
        )
    if not isinstance(score, SCORES):
        mask = None
    return precise_scores(partial(score, queries), prepared, mask)
