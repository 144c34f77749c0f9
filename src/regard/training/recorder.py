"""Adds up the losses of a training, writes the log and calls the reporter."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.errors import UserError
from regard.names import Ending
from regard.shapes import Float, Tensor
from regard.training.log import (
    AverageLine,
    DevLine,
    EndLine,
    Log,
    Reporter,
    TrainLine,
    Validation,
)
from regard.training.schedule import Progress
from regard.training.state import Totals, TrainingState

REMEDY = "Lower the learning rate, warm it up, or clip the gradient"
"""Advice in messages about numbers that are not finite."""


class NotFiniteError(UserError):
    """A loss, a measure or the norm of a gradient is not finite."""

    def __init__(self, message: str, progress: Progress) -> None:
        """`progress` is that of the update."""
        super().__init__(message)
        self.progress = progress


@dataclass(frozen=True)
class Losses:
    """Losses of one update as tensors, so that the loop does not wait for the GPU."""

    sums: Float[Tensor, "_"]
    """Loss, then each penalty, then each measure, as sums over `count` terms."""
    penalties: tuple[str, ...]
    """Names of the penalties."""
    measures: tuple[str, ...]
    """Names of the measures."""
    count: int | float
    words: int
    """Number of target tokens."""


class Recorder:
    """Recorder of one training session; it updates the totals of `state`."""

    def __init__(self, folder: Path | None, report: Reporter | None, state: TrainingState) -> None:
        self._log = Log(folder)
        self._log.begin(state.logged)
        self._report = report
        self._state = state
        self._unread: list[tuple[Progress, Losses, Float[Tensor, ""]]] = []
        self._rate = 0.0
        self._score: float | None = None
        self._started = time.perf_counter() - state.seconds

    def update(
        self, progress: Progress, losses: Losses, rate: float, norm: Float[Tensor, ""]
    ) -> None:
        """Record an update. Its losses are read later, because reading them waits for the GPU."""
        self._unread.append((progress, losses, norm))
        self._rate = rate
        if self._report:
            self._report.on_update(progress)

    def settle(self) -> None:
        """Read all losses so far and add them to the totals. Called before weights are saved.
        NotFiniteError if a loss, a measure or a gradient norm is not finite."""
        if self._unread:
            self._read_losses()
        self._state.seconds = time.perf_counter() - self._started

    def _read_losses(self) -> None:
        """Add the losses that are not read yet to the totals."""
        began = time.perf_counter()
        rows = torch.stack(
            [torch.cat((norm[None], losses.sums)) for _, losses, norm in self._unread]
        )
        totals, values = self._state.totals, rows.tolist()
        totals.seconds += time.perf_counter() - began  # a GPU finishes its updates here
        for (progress, losses, _), row in zip(self._unread, values, strict=True):
            if not all(map(math.isfinite, row)):
                raise NotFiniteError(_not_finite(progress, losses, row), progress)
            totals.loss += row[1]
            totals.count += losses.count
            totals.words += losses.words
            first = 2 + len(losses.penalties)
            _add(totals.penalties, losses.penalties, row[2:first])
            _add(totals.measures, losses.measures, row[first:])
        self._unread.clear()

    def begin_line(self) -> None:
        """Reset the totals of the next training line."""
        self.settle()
        self._state.totals = Totals()

    def train_line(self, progress: Progress) -> None:
        """Write the means since the last training line."""
        self.settle()
        totals = self._state.totals
        line = TrainLine(
            update=progress.update,
            epoch=progress.epoch,
            loss=totals.loss / totals.count,
            penalties={name: value / totals.count for name, value in totals.penalties.items()},
            measures={name: value / totals.count for name, value in totals.measures.items()},
            learning_rate=self._rate,
            tokens_per_second=round(totals.words / max(totals.seconds, 1e-9), 1),
            seconds=round(self._state.seconds, 3),
        )
        self._state.totals = Totals()
        self._log.write(line)
        if self._report:
            self._report.on_train(line, progress)

    def dev_line(self, progress: Progress, validation: Validation, best: bool) -> None:
        """Write a validation."""
        self.settle()
        line = DevLine(
            update=progress.update,
            epoch=progress.epoch,
            score=validation.score,
            metric=validation.metric,
            loss=validation.loss,
            best=best,
            seconds=round(self._state.seconds, 3),
        )
        self._log.write(line)
        if self._report:
            self._report.on_validation(line, validation)

    def average_line(
        self, validation: Validation, validations: tuple[int, ...], best: bool
    ) -> None:
        """Write the validation of the averaged weights of these validations."""
        self.settle()
        line = AverageLine(
            update=self._state.update,
            epoch=self._epoch,
            validations=validations,
            score=validation.score,
            metric=validation.metric,
            loss=validation.loss,
            best=best,
            seconds=round(self._state.seconds, 3),
        )
        self._score = validation.score if best else self._score
        self._log.write(line)
        if self._report:
            self._report.on_average(line, validation)

    @property
    def _epoch(self) -> int:
        """Epoch of the last update."""
        return self._state.epoch - (self._state.batch == 0)

    def end_line(self, reason: Ending) -> EndLine:
        """Write the end of training."""
        state = self._state
        best = state.scores[state.best] if state.scores else None
        line = EndLine(
            update=self._state.update,
            epoch=self._epoch,
            reason=reason,
            score=best if self._score is None else self._score,
            seconds=round(self._state.seconds, 3),
        )
        self._log.write(line)
        if self._report:
            self._report.on_end(line)
        return line


def _add(totals: dict[str, float], names: Sequence[str], values: Sequence[float]) -> None:
    for name, value in zip(names, values, strict=True):
        totals[name] = totals.get(name, 0.0) + value


def _not_finite(progress: Progress, losses: Losses, row: list[float]) -> str:
    norm, *values = row
    names = ("loss", *losses.penalties, *losses.measures, "gradient's norm")
    name, value = next(
        pair for pair in zip(names, [*values, norm], strict=True) if not math.isfinite(pair[1])
    )
    return (
        f"the {name} is {value} at update {progress.update} (epoch {progress.epoch}, batch "
        f"{progress.batch}), so training stopped and nothing was saved after it. {REMEDY}"
    )
