"""Learning rate schedules.

A schedule is a pure function of the progress, so a resumed run needs no state for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from regard.errors import UserError


@dataclass(frozen=True)
class Progress:
    """Progress of a training after an update. Updates and epochs are counted from 1."""

    update: int
    total: int
    """Number of updates of the whole training."""
    epoch: int = 1
    batch: int = 1
    """Number of the update's last batch in its epoch, from 1."""
    ends_epoch: bool = False
    gains: tuple[float, ...] = ()
    """Dev scores of all validations so far, negated if lower is better."""

    @property
    def is_last(self) -> bool:
        return self.update >= self.total


@runtime_checkable
class Schedule(Protocol):
    """Learning rate schedule."""

    def factor(self, progress: Progress) -> float:
        """Return the factor of the peak learning rate in this update."""


@dataclass(frozen=True)
class Constant:
    """Linear warmup, then the peak learning rate."""

    warmup: int = 0
    """Number of updates over which the learning rate rises linearly from zero to its peak."""

    def factor(self, progress: Progress) -> float:
        return _warmup(progress.update, self.warmup)


@dataclass(frozen=True)
class InverseSquareRoot:
    """Schedule of Vaswani et al. 2017, equation 3: min(update / warmup, sqrt(warmup / update)). Its
    peak, at the end of the warmup, is scaled to 1; the paper's peak is
    1 / sqrt(model size * warmup)."""

    warmup: int = 4000

    def factor(self, progress: Progress) -> float:
        warmup = max(self.warmup, 1)
        # Vaswani et al. 2017, eq. 3 if schedule is inverse_square_root:
        #     d^-0.5 min(n^-0.5, n warmup^-1.5)
        return min(progress.update / warmup, math.sqrt(warmup / progress.update))


@dataclass(frozen=True)
class LinearDecay:
    """Linear warmup, then linear decay, which would reach zero one update after the last."""

    warmup: int = 0

    def factor(self, progress: Progress) -> float:
        return min(_warmup(progress.update, self.warmup), _remaining(progress, self.warmup))


@dataclass(frozen=True)
class CosineDecay:
    """Linear warmup, then cosine decay (Loshchilov and Hutter 2017, without restarts), which would
    reach zero one update after the last."""

    warmup: int = 0

    def factor(self, progress: Progress) -> float:
        fall = (1 - math.cos(math.pi * _remaining(progress, self.warmup))) / 2
        return min(_warmup(progress.update, self.warmup), fall)


@dataclass(frozen=True)
class Plateau:
    """Linear warmup, then the peak learning rate; it is multiplied by `shrink` after every
    `patience` validations without a better dev score."""

    warmup: int = 0
    shrink: float = 0.5
    patience: int = 1

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise UserError(f"patience is {self.patience}: expected at least 1 validation")
        if not 0 < self.shrink < 1:
            raise UserError(f"shrink is {self.shrink}: expected more than 0 and less than 1")

    def factor(self, progress: Progress) -> float:
        times, waited, best = 0, 0, -math.inf
        for gain in progress.gains:
            waited = 0 if gain > best else waited + 1
            best = max(best, gain)
            if waited == self.patience:
                times, waited = times + 1, 0
        return _warmup(progress.update, self.warmup) * self.shrink**times


def _warmup(update: int, warmup: int) -> float:
    return min(1.0, update / max(warmup, 1))


def _remaining(progress: Progress, warmup: int) -> float:
    """Return the fraction of the updates after the peak that remain: 1 at the peak."""
    after_last, peak = progress.total + 1, max(warmup, 1)
    if progress.update <= peak:
        return 1.0
    return max(0, after_last - progress.update) / max(1, after_last - peak)
