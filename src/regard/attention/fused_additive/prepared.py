"""Prepared keys of additive attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regard.attention.fused_additive.spans import Spans, spans_of
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class AdditiveKeys:
    """Projected keys and, for decoding, their powers e^{2k}, computed once before the first step.
    If a key is out of range, the powers are split and have twice the size. Indexed by sentences
    like a tensor. ValueError for powers of another shape."""

    projected: Float[Tensor, "*_ source size"]
    powers: Float[Tensor, "*_ source power"] | None = None

    def __post_init__(self) -> None:
        if self.powers is None:
            return
        split = (*self.projected.shape[:-1], 2 * self.projected.size(-1))
        if self.powers.shape not in (self.projected.shape, split):
            raise ValueError(
                f"powers: expected the shape of the keys, {tuple(self.projected.shape)}, or of "
                f"split powers, {split}, got {tuple(self.powers.shape)}"
            )

    def __getitem__(self, index: Any) -> AdditiveKeys:
        powers = None if self.powers is None else self.powers[index]
        return AdditiveKeys(self.projected[index], powers)


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
