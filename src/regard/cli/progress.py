"""Progress bars on the standard error, if it is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from regard.characters import with_escapes
from regard.cli.output import say, warn
from regard.errors import counted

if TYPE_CHECKING:
    from regard.training.log import AverageLine, DevLine, EndLine, TrainLine, Validation
    from regard.training.schedule import Progress as TrainingProgress


OnFinished = Callable[[int], None]
"""Callback with the number of items that are finished since its last call."""
FIRST_LINE, NEXT_LINES = 10, 60
"""Seconds without output after which a line of progress is printed if the standard error is no
terminal: the first, and all others."""
LONGEST = 100
"""Largest number of characters of an example: an untrained model may generate hundreds."""


@contextmanager
def counting(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar. The context is a function that takes the number of items done, and their
    total if it is known."""
    console = Console(stderr=True)
    with _bar(console) as bar:
        task = bar.add_task(label, total=None, facts="")

        def progress(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield progress


class PreparationView:
    """Progress bar of the preparation of data, one task at a time.

    As a context manager it removes the bar in any case."""

    def __init__(self) -> None:
        self._bar = _bar(Console(stderr=True))
        self._label = ""
        self._first = 0, 0.0
        """Items done at the first report of a task, and its time."""
        self._clock = _LineClock()

    def __enter__(self) -> PreparationView:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __call__(self, label: str, done: int, total: int | None) -> None:
        if label != self._label:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(label, total=total, completed=done, facts="")
            self._label = label
            self._bar.start()
            self._first = done, time.monotonic()
        self._bar.update(self._bar.task_ids[-1], completed=done, total=total)
        if self._bar.disable and self._clock.is_due():
            part = "" if total is None else f" of {total:,}"
            warn(f"{label}: {done:,}{part}{self._time_left(done, total)}")

    def _time_left(self, done: int, total: int | None) -> str:
        """Return the time to the end of the task after a comma, if it can be estimated."""
        first, began = self._first
        if total is None or done <= first:
            return ""
        return f", {time_left(first, done, total, time.monotonic() - began)}"

    def stop(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()


def time_left(first: int, done: int, total: int, seconds: float) -> str:
    """Return the time for the rest of a task, as text, from the seconds since `first` items were
    done."""
    left = seconds / max(done - first, 1) * (total - done)
    return f"{left / 60:,.0f} min left" if left >= 90 else f"{left:.0f} s left"


@contextmanager
def counting_outputs(label: str, output: Path | None) -> Iterator[OnFinished]:
    """Show the progress of a command that writes a file. The context is a function that adds a
    number of finished items. Outputs that are printed show the progress themselves."""
    done = 0
    with PreparationView() as view:

        def add(number: int) -> None:
            nonlocal done
            done += number
            if output is not None:
                view(label, done, None)

        yield add


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class TrainingView:
    """Progress of training: a bar with loss, speed and time left, and a line for each validation.

    With `lines` it prints the training loss too, for a training without a dev split. As a context
    manager it removes the bar and restores the cursor in any case."""

    def __init__(self, *, lines: bool, metric: str = "score") -> None:
        """`metric` is the name of the dev score until the first validation of this session."""
        self._lines = lines
        self._bar = _bar(Console(stderr=True))
        self._task = self._bar.add_task("training", total=None, facts="")
        self._facts = ""
        self._clock = _LineClock()
        self._first: tuple[int, float] | None = None
        self._metric = metric

    def __enter__(self) -> TrainingView:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()

    def on_update(self, progress: TrainingProgress) -> None:
        self._bar.start()
        self._bar.update(self._task, completed=progress.update, total=progress.total)
        if self._first is None:
            self._first = progress.update, time.monotonic()
        if self._bar.disable and self._facts and self._clock.is_due():
            say(
                f"epoch {progress.epoch:3}  update {progress.update:,} of {progress.total:,}  "
                f"{self._facts}  {self._time_left(progress, *self._first)}"
            )

    def _time_left(self, progress: TrainingProgress, first: int, began: float) -> str:
        """Return the time to the last update, as text."""
        return time_left(first, progress.update, progress.total, time.monotonic() - began)

    def on_train(self, line: TrainLine, progress: TrainingProgress) -> None:
        del progress
        facts = f"loss {line.loss:.3f}, {line.tokens_per_second:,.0f} tokens/s"
        self._facts = facts
        self._bar.update(self._task, facts=facts)
        if self._lines:
            self._say(f"Epoch {line.epoch}, update {line.update}, Loss: {line.loss:.4f}")

    def on_validation(self, line: DevLine, validation: Validation) -> None:
        self._metric = line.metric
        loss = "" if line.loss is None else f", dev loss {line.loss:.3f}"
        best = "  (best so far)" if line.best else ""
        self._say(
            f"epoch {line.epoch:3}  update {line.update:6}  {line.seconds:6.0f} s  "
            f"{line.metric} {line.score:.2f}{loss}{best}"
        )
        for example in validation.examples[:1]:
            source, output, reference = map(
                _short, (example.source, example.output, example.reference)
            )
            self._say(f"    {source}  ->  {output}    ({reference})")

    def on_average(self, line: AverageLine, validation: Validation) -> None:
        del validation
        loss = "" if line.loss is None else f", dev loss {line.loss:.3f}"
        numbers = ", ".join(map(str, line.validations))
        outcome = "best so far" if line.best else "worse than the best checkpoint; not used"
        self._say(
            f"mean weights of validations {numbers}: {line.metric} {line.score:.2f}{loss}  "
            f"({outcome})"
        )

    def on_end(self, line: EndLine) -> None:
        self._stop()
        score = "" if line.score is None else f", best dev {self._metric} {line.score:.2f}"
        reason = "out of time (training.hours)" if line.reason == "hours" else line.reason
        say(f"{reason} after {counted(line.update, 'update')}, {line.seconds:.0f} s{score}")

    def _stop(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def _say(self, text: str) -> None:
        self._clock.restart()
        if self._bar.live.is_started and not self._bar.disable:
            self._bar.console.print(with_escapes(text), markup=False, highlight=False)
        else:
            say(text)


class _LineClock:
    """Clock that says when the next line of progress is due."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_LINE

    def is_due(self) -> bool:
        """Whether the time of a line has come. The next line is then due later."""
        if time.monotonic() < self._next:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Start the time of the next line."""
        self._next = time.monotonic() + NEXT_LINES


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
