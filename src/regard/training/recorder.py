"""Keeps account of training as it goes: adds up losses, writes the log, tells who watches."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.errors import UserError
from regard.shapes import Float, Tensor
from regard.training.log import (
    AverageLine,
    DevLine,
    Ending,
    EndLine,
    Log,
    Reporter,
    TrainLine,
    Validation,
)
from regard.training.schedule import Progress
from regard.training.state import Totals, TrainingState

REMEDY = "Lower the learning rate, warm it up, or clip the gradient"


@dataclass(frozen=True)
class Losses:
    """What one update minimised, still as tensors: nothing waits for the device."""

    sums: Float[Tensor, "_"]
    """The loss, then every penalty, each as a sum over what `count` counts."""
    penalties: tuple[str, ...]
    count: int
    words: int


class Recorder:
    """The account of one session of training, which goes on from where the run stands."""

    def __init__(self, folder: Path | None, report: Reporter | None, state: TrainingState) -> None:
        self._log = Log(folder)
        self._log.begin(state.update)
        self._report = report
        self._state = state
        self._unread: list[tuple[Progress, Losses, Float[Tensor, ""]]] = []
        self._rate = 0.0
        self._score: float | None = None
        self._started = time.perf_counter() - state.seconds

    def update(
        self, progress: Progress, losses: Losses, rate: float, norm: Float[Tensor, ""]
    ) -> None:
        """An update is done. Its numbers are not looked at yet, as that would wait for a GPU."""
        self._unread.append((progress, losses, norm))
        self._rate = rate
        if self._report:
            self._report.on_update(progress)

    def settle(self) -> None:
        """Look at all losses so far and add them up; UserError where one is not a number. To be
        called before anything is kept that they led to."""
        self._state.seconds = time.perf_counter() - self._started
        if not self._unread:
            return
        began = time.perf_counter()
        rows = torch.stack([torch.cat((norm[None], one.sums)) for _, one, norm in self._unread])
        totals, values = self._state.totals, rows.tolist()
        totals.seconds += time.perf_counter() - began  # a GPU finishes its updates here
        for (progress, losses, _), row in zip(self._unread, values, strict=True):
            if not all(map(math.isfinite, row)):
                raise UserError(_no_number(progress, row))
            totals.loss += row[1]
            totals.count += losses.count
            totals.words += losses.words
            for name, value in zip(losses.penalties, row[2:], strict=True):
                totals.penalties[name] = totals.penalties.get(name, 0.0) + value
        self._unread.clear()

    def begin_line(self) -> None:
        """What the next line says is counted from here."""
        self.settle()
        self._state.totals = Totals()

    def train_line(self, progress: Progress) -> None:
        """Say how training went since the last such line."""
        self.settle()
        totals = self._state.totals
        line = TrainLine(
            update=progress.update,
            epoch=progress.epoch,
            loss=totals.loss / totals.count,
            penalties={name: value / totals.count for name, value in totals.penalties.items()},
            learning_rate=self._rate,
            tokens_per_second=round(totals.words / max(totals.seconds, 1e-9), 1),
            seconds=round(self._state.seconds, 3),
        )
        self._state.totals = Totals()
        self._log.write(line)
        if self._report:
            self._report.on_train(line, progress)

    def dev_line(self, progress: Progress, validation: Validation, best: bool) -> None:
        """Say what a validation found."""
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
        """Say how good the mean of the weights of these validations is."""
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
        """The epoch of the last update."""
        return self._state.epoch - (self._state.batch == 0)

    def end_line(self, reason: Ending) -> EndLine:
        """Say why training ended."""
        line = EndLine(
            update=self._state.update,
            epoch=self._epoch,
            reason=reason,
            score=max(self._state.scores, default=None) if self._score is None else self._score,
            seconds=round(self._state.seconds, 3),
        )
        self._log.write(line)
        if self._report:
            self._report.on_end(line)
        return line


def _no_number(progress: Progress, row: list[float]) -> str:
    norm, loss, *_ = row
    what = f"the gradient's norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
    return (
        f"{what} at update {progress.update} (epoch {progress.epoch}, batch {progress.batch}), so "
        f"training stopped and nothing was saved after it. {REMEDY}"
    )
