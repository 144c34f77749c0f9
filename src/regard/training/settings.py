"""Settings of a training: plain records, made from a recipe or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args, runtime_checkable

from regard.errors import UserError
from regard.names import Precision, Sharding, TimeUnit
from regard.training.objectives.objective import NextToken, Objective
from regard.training.optimiser import Optimiser
from regard.training.schedule import Progress


@runtime_checkable
class Batches(Protocol):
    """Training data as batches. An epoch yields equal batches in equal order at every call. The
    loop needs only the method `to` of a batch, which moves it to a device; the objective reads its
    content."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch after the first `start`. Epochs are counted from 1."""

    def num_batches(self, number: int) -> int:
        """Return the number of batches in this epoch."""

    def fingerprint(self) -> str:
        """Return a digest of the pairs and of their order in batches."""


@dataclass(frozen=True)
class Period:
    """Number of updates or of epochs."""

    number: int
    unit: TimeUnit = "update"

    def __post_init__(self) -> None:
        if self.unit not in ("update", "epoch"):
            raise ValueError(f"unit is {self.unit!r}: expected update or epoch")
        if not isinstance(self.number, int):
            raise TypeError(
                f"number is {self.number!r}: expected an integer number of {self.unit}s"
            )
        if self.number < 1:
            raise UserError(f"{self.number} {self.unit}s: expected at least 1")

    def ends(self, progress: Progress) -> bool:
        """Return whether a period, counted from the start of training, ends with this update."""
        if self.unit == "update":
            return progress.update % self.number == 0
        return progress.ends_epoch and progress.epoch % self.number == 0

    def updates(self, batches: Batches, accumulate: int) -> int:
        """Return the number of updates in this period, counted from the start of training."""
        if self.unit == "update":
            return self.number
        epochs = range(1, self.number + 1)
        return sum(-(-batches.num_batches(epoch) // accumulate) for epoch in epochs)


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training. Equal settings, data and initial weights give equal runs."""

    length: Period = field(default_factory=lambda: Period(10, "epoch"))
    optimiser: Optimiser = field(default_factory=Optimiser)
    objective: Objective = field(default_factory=NextToken)
    precision: Precision = "float32"
    """Number format of the computation. Weights are float32 in both formats."""
    sharding: Sharding = "none"
    """Whether several processes divide the weights, gradients and moments among them (full)."""
    accumulate: int = 1
    """Number of batches in one update."""
    validate_every: Period = field(default_factory=lambda: Period(1, "epoch"))
    validate_first: bool = False
    """Whether the initial weights are validated before the first update, for trained weights. They
    are the first candidate for the best ones, and are not averaged."""
    patience: int | None = None
    """Number of validations without a better score after which training stops."""
    hours: float | None = None
    """Hours after which a session ends. Everything is saved, so the run can be resumed."""
    average: int | None = None
    """Number of best validations whose weights are averaged at the end of training. The average is
    saved if its dev score is better."""
    log_every: Period = field(default_factory=lambda: Period(50))
    save_seconds: float = 60.0
    """Seconds between saves of the training state, which is the longest time that a crash loses."""
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
        if self.hours is not None and not self.hours > 0:
            raise UserError(f"hours is {self.hours}: expected more than 0")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}: expected 0 or more")
