"""Records of mixtures of experts (Shazeer et al. 2017): which experts compute each position, and
the terms of the loss that keep the experts equally busy.

Layers, stacks and decoders call experts like any feed-forward network, with states alone. What
else experts need and give passes through `routings`: the code that calls a model opens it with the
mask of real positions, and reads from it which experts computed them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import torch

from regard.shapes import Bool, Float, Int, Tensor

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


@dataclass
class Routings:
    """Routings of all calls of each mixture of experts in a model, in the order of the calls."""

    mask: Bool[Tensor, "batch position"] | None
    """Mask of real positions; None if all are real."""
    calls: dict[object, list[Routing]] = field(default_factory=dict)

    def mask_of(self, experts: object, shape: tuple[int, ...]) -> Bool[Tensor, "..."] | None:
        """Return the mask for the next states of some experts, whose axes without the last are
        `shape`. They are all positions, the positions after those of the earlier calls, or one
        position of each hypothesis."""
        if self.mask is None:
            return None
        if shape[0] != len(self.mask):
            return self.mask.reshape(shape)
        first = sum(call.shape[1] for call in self.calls.get(experts, ()))
        return self.mask[:, first : first + shape[1]]

    def add(self, experts: object, routing: Routing) -> None:
        """Add a call of some experts."""
        self.calls.setdefault(experts, []).append(routing)

    @property
    def balances(self) -> list[Balance]:
        """Work of each mixture of experts, in training."""
        works = ([x.balance for x in calls if x.balance] for calls in self.calls.values())
        return [reduce(add, work) for work in works if work]

    def gates(self, batch: int, length: int) -> Float[Tensor, "2 batch layer position expert"]:
        """Return the gate values of every mixture of experts, and their logits, at all
        positions."""
        layers = [
            torch.cat([torch.stack([x.weights, x.scores]) for x in calls], dim=2)
            for calls in self.calls.values()
        ]
        return torch.stack([layer.view(2, batch, length, -1) for layer in layers], dim=2)


_OPEN: ContextVar[Routings | None] = ContextVar("routings", default=None)


@contextmanager
def routings(mask: Bool[Tensor, "batch position"] | None) -> Iterator[Routings]:
    """Collect the routings of all experts that are called inside. They skip positions where the
    mask is False; None if all positions are real."""
    opened = Routings(mask)
    before = _OPEN.set(opened)
    try:
        yield opened
    finally:
        _OPEN.reset(before)


def open_routings() -> Routings | None:
    """Return what `routings` has opened; None outside of it."""
    return _OPEN.get()
