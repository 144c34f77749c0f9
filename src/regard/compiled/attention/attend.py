"""Attention by one kernel: dot products (`dot/`) and additive scores (`fused_additive/`) with
softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from regard.attention import attend as formula
from regard.attention.attend import AttentionOutput, Mask, check_call
from regard.attention.masks import mask_tensor
from regard.attention.normalisers import Softmax
from regard.attention.scores import ADDITIVE_SCORES, AdditiveScore, PreparedKeys, prepared_keys
from regard.compiled.attention.dot import native as native_dots
from regard.compiled.attention.dot.choose import DOT_SCORES, dot_scale, torch_dot
from regard.compiled.attention.fused_additive import additive_attention
from regard.compiled.exact import Accelerated, is_exactly
from regard.runtime.modes import is_plain, needs_formula
from regard.shapes import Float, Tensor


class Attention(Accelerated, formula.Attention):
    """`regard.attention.Attention`, without weights and scores that nobody asked for.

    Its score, normaliser and dropout are called, as in the formula, unless each is of exactly a
    class that a kernel computes and has no hooks."""

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
        """Attend, as the formula. Kernels run for checked inputs only."""
        output = None
        if not is_plain():
            output = self._by_kernel(queries, prepared, values, mask, need_weights)
        if output is None:
            return super().forward(
                queries, prepared, values, mask, state, need_weights=need_weights
            )
        return output if state is None else replace(output, state=state)

    def _by_kernel(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None,
        need_weights: bool,
    ) -> AttentionOutput | None:
        """Return the output of a kernel; None if no kernel computes exactly these parts, whether or
        not the inputs fit."""
        drop = self.dropout
        if not is_exactly(drop, nn.Dropout):
            return None
        dropout = drop.p if drop.training else 0.0
        if is_exactly(self.score, *DOT_SCORES):
            return self._by_dot_products(queries, prepared, values, mask, dropout, need_weights)
        additive = None if need_weights or needs_formula() else additive_score(self)
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

    def _by_dot_products(
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
        check_call(queries, prepared, values, mask)
        scale = dot_scale(self.score, softmax, queries.size(-1))
        if scale is None or queries.size(-1) != prepared.size(-1):
            return None
        return AttentionOutput(torch_dot(queries, prepared, values, mask, scale, dropout))


def additive_score(attention: formula.Attention) -> tuple[AdditiveScore, float] | None:
    """Return the additive score and the factor of its scores, if the weights are the softmax of
    exactly one of the package's additive scores; otherwise None."""
    score, softmax = attention.score, attention.normaliser
    if not is_exactly(score, *ADDITIVE_SCORES) or not is_exactly(softmax, Softmax):
        return None
    return cast(AdditiveScore, score), 1 / cast(Softmax, softmax).temperature


TWINS = {formula.Attention: Attention}
