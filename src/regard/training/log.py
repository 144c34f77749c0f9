"""Lines of the training log (one JSON object each) and the interface of a reporter."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from regard.errors import UserError
from regard.names import Ending
from regard.storage.files import LOG, UnwritableError, whole
from regard.training.schedule import Progress


@dataclass(frozen=True)
class Example:
    """Source with its reference and the output of the model."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Validation:
    """Scores of a model on held-out data."""

    score: float
    metric: str
    """Name of the score."""
    loss: float | None = None
    examples: tuple[Example, ...] = ()
    higher_is_better: bool = True


@dataclass(frozen=True, kw_only=True)
class TrainLine:
    """Means over the updates since the last line of this kind."""

    kind: Literal["train"] = "train"
    update: int
    epoch: int
    loss: float
    """Mean training loss per word or per sentence, in nats, without penalties."""
    penalties: dict[str, float] = field(default_factory=dict)
    """Mean of each penalty that the model adds to its loss."""
    measures: dict[str, float] = field(default_factory=dict)
    """Mean of each measure that the model or the objective reports for the log alone."""
    learning_rate: float
    tokens_per_second: float
    """Target tokens per second, without padding; the time of validation is not counted."""
    seconds: float
    """Seconds since the start of training with validation, without breaks between sessions."""


@dataclass(frozen=True, kw_only=True)
class DevLine:
    """Validation of the model after an update."""

    kind: Literal["dev"] = "dev"
    update: int
    epoch: int
    score: float
    metric: str
    loss: float | None
    best: bool
    """Whether this validation is the best so far; its weights are then saved."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AverageLine:
    """Validation of the averaged weights of the best validations, at the end of training."""

    kind: Literal["average"] = "average"
    update: int
    epoch: int
    validations: tuple[int, ...]
    """Numbers of the averaged validations, counted from 1."""
    score: float
    metric: str
    loss: float | None
    best: bool
    """Whether the averaged weights score higher than the best validation; they are then saved."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class EndLine:
    """End of a training; the return value of `train`."""

    kind: Literal["end"] = "end"
    update: int
    epoch: int
    reason: Ending
    score: float | None
    """Dev score of the saved weights, which is the best; None without dev scores."""
    seconds: float

    @property
    def interrupted(self) -> bool:
        """Whether a signal (Ctrl-C or SIGTERM) ended training early."""
        return self.reason in ("interrupted", "terminated")


Line = TrainLine | DevLine | AverageLine | EndLine


@runtime_checkable
class Reporter(Protocol):
    """Observer of a training. The loop calls these five methods and waits for each."""

    def on_update(self, progress: Progress) -> None:
        """Called after every update. The loss is not passed, because reading it would wait for the
        GPU."""

    def on_train(self, line: TrainLine, progress: Progress) -> None:
        """Called with every training line of the log."""

    def on_validation(self, line: DevLine, validation: Validation) -> None:
        """Called after every validation."""

    def on_average(self, line: AverageLine, validation: Validation) -> None:
        """Called before the end if weights were averaged."""

    def on_end(self, line: EndLine) -> None:
        """Called once, at the end."""


class SilentReporter:
    """Reporter that does nothing."""

    def on_update(self, progress: Progress) -> None:
        """Do nothing."""

    def on_train(self, line: TrainLine, progress: Progress) -> None:
        """Do nothing."""

    def on_validation(self, line: DevLine, validation: Validation) -> None:
        """Do nothing."""

    def on_average(self, line: AverageLine, validation: Validation) -> None:
        """Do nothing."""

    def on_end(self, line: EndLine) -> None:
        """Do nothing."""


class Log:
    """Log file of a run; without a folder nothing is written."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / LOG if folder else None

    def write(self, line: Line) -> None:
        if self._path:
            _append(self._path, json.dumps(asdict(line), ensure_ascii=False) + "\n")

    def begin(self, update: int) -> None:
        """Remove the lines after this update, so that a resumed run repeats none. The end line and
        the average line of an earlier session are removed too, and so is an incomplete line that a
        crash left."""
        if self._path:
            with whole(self._path) as path:
                path.write_text(_text_up_to(self._path, update), encoding="utf-8")


def digest_up_to(path: Path, update: int) -> str:
    """Return the SHA-256 of the log's lines up to this update, after a flush to the disk. UserError
    if the log cannot be read."""
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    return hashlib.sha256(_text_up_to(path, update).encode()).hexdigest()


def _append(path: Path, text: str) -> None:
    """Append a line completely or not at all."""
    try:
        with path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                written = file.write(text.encode())
                if written != len(text.encode()):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                with suppress(OSError):
                    file.truncate(size)
                raise
    except OSError as error:
        raise UnwritableError(f"cannot write {path}: {error.strerror or error}") from error


def _text_up_to(path: Path, update: int) -> str:
    return "".join(f"{line}\n" for line in _lines(path) if _is_before(line, update))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []


def _is_before(line: str, update: int) -> bool:
    try:
        record = json.loads(line)
        return record["kind"] not in ("average", "end") and bool(record["update"] <= update)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
