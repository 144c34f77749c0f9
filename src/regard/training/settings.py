"""How to train: plain records, made from a recipe or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args, runtime_checkable

from regard.errors import UserError
from regard.names import Precision, TimeUnit
from regard.training.objective import NextToken, Objective
from regard.training.optimiser import Optimiser
from regard.training.schedule import Progress


@runtime_checkable
class Batches(Protocol):
    """Training data. An epoch has the same batches in the same order whenever it is asked for. What
    a batch holds is between the data and the objective; `to` takes it to a device."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch, leaving out the first `start`. Epochs count from one."""

    def num_batches(self, number: int) -> int:
        """How many batches this epoch has."""

    def fingerprint(self) -> str:
        """The same for the same pairs in the same batches, and for no others."""


@dataclass(frozen=True)
class Period:
    """A number of updates or of epochs."""

    number: int
    unit: TimeUnit = "update"

    def __post_init__(self) -> None:
        if self.unit not in ("update", "epoch"):
            raise ValueError(f"unit is {self.unit!r}: expected update or epoch")
        if not isinstance(self.number, int):
            raise TypeError(f"number is {self.number!r}: expected a whole number of {self.unit}s")
        if self.number < 1:
            raise UserError(f"{self.number} {self.unit}s: expected at least 1")

    def ends(self, progress: Progress) -> bool:
        """Whether this update ends such a stretch: the first one, the second and so on."""
        if self.unit == "update":
            return progress.update % self.number == 0
        return progress.ends_epoch and progress.epoch % self.number == 0

    def updates(self, batches: Batches, accumulate: int) -> int:
        """The same time counted in updates, from the start of training."""
        if self.unit == "update":
            return self.number
        epochs = range(1, self.number + 1)
        return sum(-(-batches.num_batches(epoch) // accumulate) for epoch in epochs)


@dataclass(frozen=True)
class TrainingSettings:
    """How to train. Two runs with the same settings, data and first weights are the same run."""

    length: Period = field(default_factory=lambda: Period(10, "epoch"))
    optimiser: Optimiser = field(default_factory=Optimiser)
    objective: Objective = field(default_factory=NextToken)
    precision: Precision = "float32"
    """Of the computation; the weights are float32 in either case."""
    accumulate: int = 1
    """Batches that make one update together."""
    validate_every: Period = field(default_factory=lambda: Period(1, "epoch"))
    patience: int | None = None
    """Stop after so many validations without a better score."""
    average: int | None = None
    """At the end of training also try the mean of the weights of the so many best validations."""
    log_every: Period = field(default_factory=lambda: Period(50))
    save_seconds: float = 60.0
    """Write what resuming needs when so much time has passed: the most that a crash can cost."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision is {self.precision!r}: expected float32 or bfloat16")
        for name in ("accumulate", "patience"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise UserError(f"{name} is {number}: expected at least 1")
        if self.average is not None and self.average < 2:
            raise UserError(f"average is {self.average}: expected at least 2 validations")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}: expected 0 or more")
