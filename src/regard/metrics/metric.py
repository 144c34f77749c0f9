"""A metric by its name, and the score that it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from regard.names import MetricName

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class MetricScore:
    """Value of a metric, and how it was computed. Most values are per cents, from 0 to 100. Error
    rates and CIDEr-D may exceed 100, R2 may be negative, and errors of numbers have the unit of
    these numbers."""

    name: str
    """Name of the metric as papers write it."""
    value: float
    signature: str
    """Settings that two values must share to be comparable."""


@dataclass(frozen=True)
class Metric(Generic[Function]):
    """Metric that can be the dev score. Outputs and targets go into `compute`, a `MetricScore`
    comes out."""

    name: MetricName
    """Value of the option `training.metric`."""
    compute: Function
    higher_is_better: bool = True


def named(metrics: Sequence[Metric[Function]], name: str) -> Metric[Function] | None:
    """Return the metric of this name, or None."""
    return next((metric for metric in metrics if metric.name == name), None)
