"""Records of a mixture of experts (Shazeer et al. 2017): which experts compute each position, and
the terms of the loss that keep the experts equally busy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from regard.shapes import Float, Int, Tensor

SMALLEST_MEAN = 1e-10
"""Added to the squared means of importance and load, and the least mean of the counts, so that
numbers are finite for a batch without positions."""


@dataclass(frozen=True)
class Balance:
    """Work of each expert in training, as sums over positions: gate values (`importance`), expected
    numbers of positions (`load`, eq. 10) and numbers of positions (`counts`). The weights are those
    of the two terms of the loss."""

    importance: Float[Tensor, "expert"]
    load: Float[Tensor, "expert"]
    counts: Float[Tensor, "expert"]
    importance_weight: float
    load_weight: float

    @property
    def importance_loss(self) -> Float[Tensor, ""]:
        """Weighted term of the importance (eq. 7)."""
        # Shazeer et al. 2017, eq. 7: L_importance = w_importance CV(Importance(X))^2
        return self.importance_weight * squared_variation(self.importance)

    @property
    def load_loss(self) -> Float[Tensor, ""]:
        """Weighted term of the load (eq. 11)."""
        # Shazeer et al. 2017, eq. 11: L_load = w_load CV(Load(X))^2
        return self.load_weight * squared_variation(self.load)

    @property
    def largest_load(self) -> Float[Tensor, ""]:
        """Number of positions of the busiest expert, divided by the mean over experts."""
        return self.counts.max() / self.counts.mean().clamp_min(SMALLEST_MEAN)

    def __add__(self, later: Balance) -> Balance:
        """Return the work at the positions of both."""
        return replace(
            self,
            importance=self.importance + later.importance,
            load=self.load + later.load,
            counts=self.counts + later.counts,
        )


def squared_variation(numbers: Float[Tensor, "expert"]) -> Float[Tensor, ""]:
    """Return the squared coefficient of variation: the variance over the squared mean."""
    return numbers.var(correction=0) / (numbers.mean().square() + SMALLEST_MEAN)


@dataclass(frozen=True)
class Routing:
    """Experts of each real position and their gate values. `real` are the numbers of the real
    positions, counted over the whole batch; None without padding. `shape` is that of all positions.
    Evaluation has no balance."""

    experts: Int[Tensor, "row active"]
    gates: Float[Tensor, "row active"]
    logits: Float[Tensor, "row expert"]
    shape: tuple[int, ...]
    real: Int[Tensor, "row"] | None
    balance: Balance | None = None

    @property
    def weights(self) -> Float[Tensor, "*batch position expert"]:
        """Gate value of every expert at every position; zeros at padding."""
        return self._spread(torch.zeros_like(self.logits).scatter(1, self.experts, self.gates))

    @property
    def scores(self) -> Float[Tensor, "*batch position expert"]:
        """Logits of the gate without noise; zeros at padding."""
        return self._spread(self.logits)

    def _spread(self, rows: Float[Tensor, "row expert"]) -> Tensor:
        if self.real is not None:
            num_positions = torch.Size(self.shape).numel()
            rows = rows.new_zeros(num_positions, rows.size(1)).index_copy(0, self.real, rows)
        return rows.view(*self.shape, rows.size(1))
