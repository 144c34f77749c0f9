"""Keys as additive attention looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class AdditiveKeys:
    """Projected keys, and e^{2k} of them for decoding, where it was taken once for every step to
    come; split powers, of twice the size, if a key is out of range. It is indexed by sentences, as
    a tensor is."""

    projected: Float[Tensor, "*_ source size"]
    powers: Float[Tensor, "*_ source power"] | None = None

    def __post_init__(self) -> None:
        if self.powers is None:
            return
        split = (*self.projected.shape[:-1], 2 * self.projected.size(-1))
        if self.powers.shape not in (self.projected.shape, split):
            raise ValueError(
                f"powers: expected the shape of the keys, {tuple(self.projected.shape)}, got "
                f"{tuple(self.powers.shape)}"
            )

    def __getitem__(self, index: Any) -> AdditiveKeys:
        powers = None if self.powers is None else self.powers[index]
        return AdditiveKeys(self.projected[index], powers)
