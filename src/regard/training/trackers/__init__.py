"""Trackers: files and services that receive the log of a training."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError, install_command
from regard.names import TrackerName
from regard.training.log import AverageLine, DevLine, EndLine, Line, Reporter, TrainLine, Validation
from regard.training.schedule import Progress
from regard.training.trackers.tracker import TrackedRun, Tracker

log = logging.getLogger(__name__)

PACKAGES: Mapping[TrackerName, str | None] = {
    "csv": None,
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
}
"""Package that each tracker needs."""


def check_packages(names: Sequence[TrackerName]) -> None:
    """Raise a UserError for a tracker whose package is not installed."""
    for name in names:
        package = PACKAGES[name]
        if package is not None and not _is_installed(package):
            raise UserError(
                f"training.track {name} needs the package {package}, which is not installed: "
                f"{install_command(package)}"
            )


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a module without a specification that is loaded
        return True


@contextmanager
def tracked(
    reporter: Reporter | None,
    names: Sequence[TrackerName],
    folder: Path,
    run_name: str,
    fields: Mapping[str, object],
) -> Iterator[Reporter | None]:
    """Return a reporter that also writes to these trackers, and close them when the block ends."""
    if not names:
        yield reporter
        return
    tracking = TrackingReporter(reporter, names, folder, run_name, fields)
    try:
        yield tracking
    finally:
        tracking.close()


class TrackingReporter:
    """Reporter that writes every line of the log to trackers and passes all calls on.

    The trackers are opened at the first update or validation, whose number shows where a resumed
    run continues. A tracker that fails is reported once and is not used again; training
    continues."""

    def __init__(
        self,
        reporter: Reporter | None,
        names: Sequence[TrackerName],
        folder: Path,
        run_name: str,
        fields: Mapping[str, object],
    ) -> None:
        """`fields` are the fields of the experiment by full name."""
        self._reporter = reporter
        self._names = tuple(dict.fromkeys(names))
        self._run = folder, run_name, fields
        self._trackers: dict[TrackerName, Tracker] | None = None

    def on_update(self, progress: Progress) -> None:
        if self._trackers is None:
            self._open(progress.update)
        if self._reporter:
            self._reporter.on_update(progress)

    def on_train(self, line: TrainLine, progress: Progress) -> None:
        self._write(line)
        if self._reporter:
            self._reporter.on_train(line, progress)

    def on_validation(self, line: DevLine, validation: Validation) -> None:
        if self._trackers is None:  # the validation of the initial weights precedes all updates
            self._open(line.update)
        self._write(line)
        if self._reporter:
            self._reporter.on_validation(line, validation)

    def on_average(self, line: AverageLine, validation: Validation) -> None:
        self._write(line)
        if self._reporter:
            self._reporter.on_average(line, validation)

    def on_end(self, line: EndLine) -> None:
        self._write(line)
        if self._reporter:
            self._reporter.on_end(line)

    def close(self) -> None:
        """Close all trackers."""
        for name, tracker in list((self._trackers or {}).items()):
            try:
                tracker.close()
            except Exception as error:  # noqa: BLE001 - a library may raise anything
                self._drop(name, error)
        self._trackers = {}

    def _open(self, first_update: int) -> None:
        self._trackers = {}
        run = TrackedRun(*self._run, first_update)
        for name in self._names:
            try:
                module = importlib.import_module(f"{__name__}.{name}_tracker")
                self._trackers[name] = module.open_tracker(run)
            except Exception as error:  # noqa: BLE001 - a library may raise anything
                self._drop(name, error)

    def _write(self, line: Line) -> None:
        for name, tracker in list((self._trackers or {}).items()):
            try:
                tracker.write(line)
            except Exception as error:  # noqa: BLE001 - a library may raise anything
                self._drop(name, error)

    def _drop(self, name: TrackerName, error: Exception) -> None:
        (self._trackers or {}).pop(name, None)
        reason = " ".join(str(error).split()) or type(error).__name__
        log.warning("training.track %s failed and is no longer used: %s", name, reason)
