"""Counters of a training run, which a resumed run continues from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

DECIMALS = 6
"""Decimals of dev scores in comparisons. Smaller differences are rounding errors."""


@dataclass
class Totals:
    """Sums over the updates since the last line of the log."""

    loss: float = 0.0
    count: int | float = 0
    """Number of terms in the loss (words, sentences or labels), or the sum of their weights."""
    words: int = 0
    """Number of target tokens, without padding."""
    seconds: float = 0.0
    """Seconds in updates, without validation."""
    penalties: dict[str, float] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)


@dataclass
class TrainingState:
    """Position of a training run, without its tensors. It holds no state of random generators: the
    randomness of an update follows from the seed and the number of the update."""

    update: int = 0
    epoch: int = 1
    batch: int = 0
    """Batches of this epoch that are done."""
    seconds: float = 0.0
    """Seconds of training, over all sessions."""
    scores: list[float] = field(default_factory=list)
    """Dev score of each validation."""
    losses: list[float | None] = field(default_factory=list)
    """Dev loss of each validation, in the order of `scores`."""
    totals: Totals = field(default_factory=Totals)
    higher_is_better: bool = True
    """Direction of the dev score; False for error rates."""
    has_initial: bool = False
    """Whether the first validation is that of the initial weights, before any update."""
    products: dict[str, str] = field(default_factory=dict)
    """Library of each class of matrix products (`product_library`); empty in runs of versions that
    had no choice."""

    @property
    def gains(self) -> list[float]:
        """Dev scores, negated if lower is better: the highest is the best."""
        return [gain(score, self.higher_is_better) for score in self.scores]

    @property
    def ranked(self) -> list[int]:
        """Numbers of the validations from 0, best first. Between equal scores the lower loss
        decides, between equal losses the earlier validation."""
        ranks = list(map(rank, self.gains, self.losses))
        return sorted(range(len(ranks)), key=ranks.__getitem__, reverse=True)

    @property
    def best(self) -> int:
        """Number of the best validation."""
        return self.ranked[0]

    @property
    def trained(self) -> list[int]:
        """Numbers of the validations after an update, best first."""
        return [number for number in self.ranked if number or not self.has_initial]

    @property
    def logged(self) -> int:
        """Last update with lines in the log; -1 before a validation of the initial weights."""
        return self.update if self.update or self.scores else -1


def gain(score: float, higher_is_better: bool) -> float:
    """Return the score, negated if lower is better."""
    return score if higher_is_better else -score


def rank(gain: float, loss: float | None) -> tuple[float, float]:
    """Return a key that orders validations by gain, then by lower loss; the best has the highest
    key. Scores are rounded to `DECIMALS`."""
    return round(gain, DECIMALS), -math.inf if loss is None or math.isnan(loss) else -loss
