"""Constants of all steps of additive attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from regard.compiled.attention.fused_additive.spans import Spans, spans_of
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class AdditiveMemory:
    """Projected keys and values with one batch axis, and the parameters of the score: constants of
    all steps of a loop. `scale` multiplies the scores; `powers` are those of `AdditiveKeys`."""

    keys: Float[Tensor, "batch source size"]
    vector: Float[Tensor, "size"]
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "#batch #target source"] | None = None
    scale: float = 1.0
    powers: Float[Tensor, "batch source power"] | None = None

    @cached_property
    def spans(self) -> Spans | None:
        """Visible span of every row of the mask."""
        return None if self.mask is None else spans_of(self.mask)
