"""How to train: plain records, made from a recipe or by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args, runtime_checkable

import torch
from torch import nn

from regard.errors import UserError
from regard.names import Precision, TimeUnit
from regard.training.objective import NextToken, Objective
from regard.training.schedule import Constant, Progress, Schedule


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
class Optimiser:
    """Adam (Kingma and Ba 2015), with weight decay apart from the gradient (Loshchilov and Hutter
    2019)."""

    learning_rate: float = 1e-3
    """At its peak; the schedule says how much of it."""
    schedule: Schedule = field(default_factory=Constant)
    weight_decay: float = 0.0
    clip: float | None = 1.0
    """The largest norm of the gradient of all weights together; longer ones are shortened."""
    betas: tuple[float, float] = (0.9, 0.999)
    """What is kept of the moving means of the gradient and of its square."""
    epsilon: float = 1e-8
    """What is added to the root of the latter."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip", "epsilon"):
            number = getattr(self, name)
            if number is not None and not 0 < number < math.inf:
                raise UserError(f"{name} is {number}: expected more than 0")
        if not 0 <= self.weight_decay < math.inf:
            raise UserError(f"weight_decay is {self.weight_decay}: expected 0 or more")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"betas are {self.betas}: expected two numbers from 0 to below 1")

    def build(self, model: nn.Module) -> torch.optim.AdamW:
        """For the weights that want a gradient. The fused kernel takes a fifth of the time."""
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        return torch.optim.AdamW(
            weights,
            lr=self.learning_rate,
            betas=self.betas,
            eps=self.epsilon,
            weight_decay=self.weight_decay,
            fused=True,
        )

    def step(self, adam: torch.optim.AdamW, progress: Progress) -> tuple[float, torch.Tensor]:
        """Change the weights. The learning rate used, and the gradient's norm before clipping."""
        rate = self.learning_rate * self.schedule.factor(progress)
        (group,) = adam.param_groups
        group["lr"] = rate
        gradients = [weight.grad for weight in group["params"] if weight.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if self.clip is not None:
            nn.utils.clip_grads_with_norm_(group["params"], self.clip, norm)
        adam.step()
        adam.zero_grad(set_to_none=True)
        return rate, norm


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
