"""Additive scores by the kernels of `fused_additive/`, which form no tensor of batch x target x
source x size. Scores are at least in float32."""

from __future__ import annotations

from typing import cast

from regard.attention import scores as formula
from regard.attention.prepared import AdditiveKeys
from regard.attention.scores import prepared_keys
from regard.compiled.attention.fused_additive import additive_scores, prepare
from regard.compiled.exact import Accelerated
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Tensor


class _Score(Accelerated):
    """An additive score, with the powers of the keys in decoding."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> AdditiveKeys:
        return prepare(self.formula.prepare(keys))

    def forward(
        self, queries: Float[Tensor, "*#batch target query"], prepared: AdditiveKeys
    ) -> Float[Tensor, "*batch target source"]:
        if needs_formula():
            return self.formula.forward(queries, prepared)
        score = cast(formula.AdditiveScore, self)
        projected, keys = score.project_queries(queries), prepared_keys(score, prepared).projected
        return additive_scores(projected, keys, score.vector)


class Additive(_Score, formula.Additive):
    """`regard.attention.Additive` by the kernels."""


class Concat(_Score, formula.Concat):
    """`regard.attention.Concat` by the kernels."""


class SharedAdditive(_Score, formula.SharedAdditive):
    """`regard.attention.SharedAdditive` by the kernels."""


TWINS = {
    formula.Additive: Additive,
    formula.Concat: Concat,
    formula.SharedAdditive: SharedAdditive,
}
