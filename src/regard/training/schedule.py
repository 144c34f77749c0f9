"""How the learning rate moves: small objects that look at how far training has come.

A schedule is a pure function of the progress, so a resumed run needs to remember nothing for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from regard.errors import UserError


@dataclass(frozen=True)
class Progress:
    """How far training has come. Updates and epochs are counted from one."""

    update: int
    total: int
    """The updates of the whole training."""
    epoch: int = 1
    batch: int = 1
    """The last batch of the update, counted from one in its epoch."""
    ends_epoch: bool = False
    scores: tuple[float, ...] = ()
    """Every dev score so far; more is better."""

    @property
    def is_last(self) -> bool:
        return self.update >= self.total


@runtime_checkable
class Schedule(Protocol):
    """Says what the peak learning rate is multiplied by in an update."""

    def factor(self, progress: Progress) -> float: ...


@dataclass(frozen=True)
class Constant:
    """Up in the warmup, then the peak for good."""

    warmup: int = 0
    """Updates over which the rate rises in a line from zero to its peak."""

    def factor(self, progress: Progress) -> float:
        return _rise(progress.update, self.warmup)


@dataclass(frozen=True)
class InverseSquareRoot:
    """Vaswani et al. 2017, equation 3, with the peak, reached at the end of the warmup, as 1:
    min(update / warmup, sqrt(warmup / update)). Their peak is 1 / sqrt(model size * warmup)."""

    warmup: int = 4000

    def factor(self, progress: Progress) -> float:
        warmup = max(self.warmup, 1)
        return min(progress.update / warmup, math.sqrt(warmup / progress.update))


@dataclass(frozen=True)
class LinearDecay:
    """Up in the warmup, then down in a line; zero would be the update after the last."""

    warmup: int = 0

    def factor(self, progress: Progress) -> float:
        return min(_rise(progress.update, self.warmup), _left(progress, self.warmup))


@dataclass(frozen=True)
class CosineDecay:
    """Up in the warmup, then down half a cosine wave (Loshchilov and Hutter 2017, without
    restarts); zero would be the update after the last."""

    warmup: int = 0

    def factor(self, progress: Progress) -> float:
        fall = (1 - math.cos(math.pi * _left(progress, self.warmup))) / 2
        return min(_rise(progress.update, self.warmup), fall)


@dataclass(frozen=True)
class Plateau:
    """Smaller each time that the dev score has not been beaten for `patience` validations."""

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
        for score in progress.scores:
            waited = 0 if score > best else waited + 1
            best = max(best, score)
            if waited == self.patience:
                times, waited = times + 1, 0
        return _rise(progress.update, self.warmup) * self.shrink**times


def _rise(update: int, warmup: int) -> float:
    return min(1.0, update / max(warmup, 1))


def _left(progress: Progress, warmup: int) -> float:
    """The share of the updates after the peak that is still to come: 1 at the peak."""
    after_last, peak = progress.total + 1, max(warmup, 1)
    if progress.update <= peak:
        return 1.0
    return max(0, after_last - progress.update) / max(1, after_last - peak)
