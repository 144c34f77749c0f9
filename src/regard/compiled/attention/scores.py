"""Additive scores by the kernels of `fused_additive/`, which form no tensor of batch x target x
source x size. Scores are at least in float32."""

from __future__ import annotations

from regard.attention import scores as formula
from regard.attention.prepared import AdditiveKeys
from regard.attention.scores import AdditiveScore, prepared_keys
from regard.compiled.attention.fused_additive import additive_scores, prepare
from regard.fast_path import Accelerated, needs_formula
from regard.shapes import Float, Tensor


class Additive(Accelerated, formula.Additive):
    """`regard.attention.Additive`, with the powers of the keys in decoding."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        return prepare(super().prepare(keys))

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        if needs_formula():
            return super().forward(queries, prepared)
        return _scores(self, queries, prepared)


class Concat(Accelerated, formula.Concat):
    """`regard.attention.Concat`, with the powers of the keys in decoding."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        return prepare(super().prepare(keys))

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        if needs_formula():
            return super().forward(queries, prepared)
        return _scores(self, queries, prepared)


class SharedAdditive(Accelerated, formula.SharedAdditive):
    """`regard.attention.SharedAdditive`, with the powers of the keys in decoding."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        return prepare(super().prepare(keys))

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        if needs_formula():
            return super().forward(queries, prepared)
        return _scores(self, queries, prepared)


def _scores(
    score: AdditiveScore, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
) -> Float[Tensor, "*batch target source"]:
    projected, keys = score.project_queries(queries), prepared_keys(score, prepared).projected
    return additive_scores(projected, keys, score.vector)


TWINS = {
    formula.Additive: Additive,
    formula.Concat: Concat,
    formula.SharedAdditive: SharedAdditive,
}
