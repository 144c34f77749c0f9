"""Scores of labels and of numbers against what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.metrics.text import MetricScore

Measure = Callable[[Sequence[str], Sequence[str]], MetricScore]


@dataclass(frozen=True)
class Confusion:
    """How often each label (down) was given each label (across)."""

    labels: tuple[str, ...]
    counts: np.ndarray

    @classmethod
    def of(cls, found: Sequence[str], wanted: Sequence[str], labels: Sequence[str]) -> Confusion:
        """Labels that are none of these come after them. ValueError where there is nothing to
        compare."""
        _check(found, wanted)
        names = list(dict.fromkeys([*labels, *wanted, *found]))
        numbers = {name: number for number, name in enumerate(names)}
        counts = np.zeros((len(names), len(names)), dtype=np.int64)
        for one, other in zip(wanted, found, strict=True):
            counts[numbers[one], numbers[other]] += 1
        return cls(tuple(names), counts)

    @property
    def precisions(self) -> np.ndarray:
        """Of each label, the share of what was given it that it is right for, from 0 to 1; 0 where
        nothing was."""
        return _shares(np.diag(self.counts), self.counts.sum(axis=0))

    @property
    def recalls(self) -> np.ndarray:
        """Of each label, the share of what it is right for that was given it; 0 where nothing
        is."""
        return _shares(np.diag(self.counts), self.counts.sum(axis=1))

    @property
    def f1(self) -> np.ndarray:
        """The harmonic mean of both (van Rijsbergen 1979, chapter 7)."""
        both = self.precisions + self.recalls
        return _shares(2 * self.precisions * self.recalls, both)


def accuracy(found: Sequence[str], wanted: Sequence[str]) -> MetricScore:
    """The percentage that is right."""
    _check(found, wanted)
    right = sum(one == other for one, other in zip(found, wanted, strict=True))
    return MetricScore("accuracy", 100 * right / len(found), f"examples:{len(found)}")


def macro_f1(found: Sequence[str], wanted: Sequence[str]) -> MetricScore:
    """The mean F1 of the labels, each counting alike, from 0 to 100. Labels are those that are
    right for something or were given to something."""
    confusion = Confusion.of(found, wanted, ())
    value = 100 * float(confusion.f1.mean())
    return MetricScore("macro F1", value, f"labels:{len(confusion.labels)}")


def mean_error(found: Sequence[str], wanted: Sequence[str]) -> MetricScore:
    """The mean distance of numbers from those that are right, in their own units."""
    ours, theirs = _numbers(found, wanted)
    return MetricScore("mean error", float(np.abs(ours - theirs).mean()), f"examples:{len(found)}")


def root_mean_square_error(found: Sequence[str], wanted: Sequence[str]) -> MetricScore:
    """The root of the mean squared distance, in their own units."""
    ours, theirs = _numbers(found, wanted)
    value = float(np.sqrt(((ours - theirs) ** 2).mean()))
    return MetricScore("RMSE", value, f"examples:{len(found)}")


def r2(found: Sequence[str], wanted: Sequence[str]) -> MetricScore:
    """The share of the variance that is explained, in per cent: 100 is without error, 0 is no
    better than the mean, and below 0 is worse. Of several outputs the mean; 0 for an output that
    is the same throughout, unless it is met exactly."""
    ours, theirs = _numbers(found, wanted)
    missed = ((ours - theirs) ** 2).sum(axis=0)
    spread = ((theirs - theirs.mean(axis=0)) ** 2).sum(axis=0)
    shares = np.where(missed == 0, 1.0, 1 - missed / np.where(spread > 0, spread, missed + 1e-300))
    return MetricScore("R2", 100 * float(shares.mean()), f"examples:{len(found)}")


def _numbers(found: Sequence[str], wanted: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    _check(found, wanted)
    ours, theirs = (
        np.array([[float(word) for word in text.split()] for text in texts])
        for texts in (found, wanted)
    )
    return ours, theirs


def _shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)


def _check(found: Sequence[str], wanted: Sequence[str]) -> None:
    if not found or len(found) != len(wanted):
        raise ValueError(
            f"{len(found)} answers and {len(wanted)} that are right: expected as many, and at "
            "least one"
        )
