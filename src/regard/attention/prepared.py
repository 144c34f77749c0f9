"""Prepared keys of additive scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class AdditiveKeys:
    """Projected keys, indexed by sentences like a tensor. Accelerated scores also compute the
    powers e^{2k}, once before the first step of decoding; the formula does not read them. If a key
    is out of range, the powers are split and have twice the size. ValueError for powers of another
    shape."""

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
