"""Metrics of predicted labels and of predicted numbers against their targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.metrics.metric import Metric, MetricScore

PredictionFunction = Callable[[Sequence[str], Sequence[str]], MetricScore]
"""Function from predictions and their targets, as texts, to a score."""


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix: rows are targets, columns are predictions."""

    labels: tuple[str, ...]
    counts: np.ndarray

    @classmethod
    def of(
        cls, predictions: Sequence[str], targets: Sequence[str], labels: Sequence[str]
    ) -> Confusion:
        """Count predictions for each target. Rows and columns are ordered as `labels`, then come
        other targets and predictions. ValueError if there are no predictions."""
        _check(predictions, targets)
        names = list(dict.fromkeys([*labels, *targets, *predictions]))
        numbers = {name: number for number, name in enumerate(names)}
        counts = np.zeros((len(names), len(names)), dtype=np.int64)
        for target, prediction in zip(targets, predictions, strict=True):
            counts[numbers[target], numbers[prediction]] += 1
        return cls(tuple(names), counts)

    @property
    def precisions(self) -> np.ndarray:
        """Precision of each label, from 0 to 1: correct predictions over all predictions of it; 0
        if it was never predicted."""
        return _ratios(np.diag(self.counts), self.counts.sum(axis=0))

    @property
    def recalls(self) -> np.ndarray:
        """Recall of each label, from 0 to 1: correct predictions over all targets with it; 0 if it
        is no target."""
        return _ratios(np.diag(self.counts), self.counts.sum(axis=1))

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall of each label (van Rijsbergen 1979, chapter 7)."""
        sums = self.precisions + self.recalls
        return _ratios(2 * self.precisions * self.recalls, sums)


def accuracy(predictions: Sequence[str], targets: Sequence[str]) -> MetricScore:
    """Return the percentage of correct predictions."""
    _check(predictions, targets)
    num_correct = sum(map(str.__eq__, predictions, targets))
    value = 100 * num_correct / len(predictions)
    return MetricScore("accuracy", value, f"examples:{len(predictions)}")


def macro_f1(predictions: Sequence[str], targets: Sequence[str]) -> MetricScore:
    """Return the unweighted mean of F1 over labels, from 0 to 100. It covers every label that is a
    target or a prediction."""
    confusion = Confusion.of(predictions, targets, ())
    value = 100 * float(confusion.f1.mean())
    return MetricScore("macro F1", value, f"labels:{len(confusion.labels)}")


def mean_error(predictions: Sequence[str], targets: Sequence[str]) -> MetricScore:
    """Return the mean absolute error of numbers, in their unit."""
    outputs, wanted = _numbers(predictions, targets)
    value = float(np.abs(outputs - wanted).mean())
    return MetricScore("mean error", value, f"examples:{len(predictions)}")


def root_mean_square_error(predictions: Sequence[str], targets: Sequence[str]) -> MetricScore:
    """Return the root mean square error of numbers, in their unit."""
    outputs, wanted = _numbers(predictions, targets)
    value = float(np.sqrt(((outputs - wanted) ** 2).mean()))
    return MetricScore("RMSE", value, f"examples:{len(predictions)}")


def r2(predictions: Sequence[str], targets: Sequence[str]) -> MetricScore:
    """Return the share of the variance that the predictions explain, in per cent: 100 is without
    error, 0 is no better than the mean of the targets, below 0 is worse. The score of several
    outputs is their mean. An output whose targets are all equal has 0, or 100 if all are exact."""
    outputs, wanted = _numbers(predictions, targets)
    residual = ((outputs - wanted) ** 2).sum(axis=0)
    total = ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0)
    explained = np.where(
        residual == 0, 1.0, 1 - residual / np.where(total > 0, total, residual + 1e-300)
    )
    return MetricScore("R2", 100 * float(explained.mean()), f"examples:{len(predictions)}")


LABEL_METRICS: tuple[Metric[PredictionFunction], ...] = (
    Metric("accuracy", accuracy),
    Metric("macro_f1", macro_f1),
)
NUMBER_METRICS: tuple[Metric[PredictionFunction], ...] = (
    Metric("r2", r2),
    Metric("mean_error", mean_error, higher_is_better=False),
    Metric("rmse", root_mean_square_error, higher_is_better=False),
)


def _numbers(predictions: Sequence[str], targets: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    _check(predictions, targets)
    outputs, wanted = (
        np.array([[float(word) for word in text.split()] for text in texts])
        for texts in (predictions, targets)
    )
    return outputs, wanted


def _ratios(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)


def _check(predictions: Sequence[str], targets: Sequence[str]) -> None:
    if not predictions or len(predictions) != len(targets):
        raise ValueError(
            f"got {len(predictions)} predictions and {len(targets)} targets: expected equal "
            "numbers, at least 1"
        )
