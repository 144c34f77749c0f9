"""What training says: to its log, one JSON object a line, and to whoever watches."""

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
from regard.files import LOG, UnwritableError, whole
from regard.training.schedule import Progress

Ending = Literal["finished", "patience", "interrupted", "terminated"]
"""Why training ended: all updates, no better dev score, SIGINT, SIGTERM."""


@dataclass(frozen=True)
class Example:
    """A source with what should be written for it and what the model wrote."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Validation:
    """What a model achieves on data that it was not trained on."""

    score: float
    """More is better."""
    metric: str
    loss: float | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrainLine:
    """How training went since the last such line."""

    kind: Literal["train"] = "train"
    update: int
    epoch: int
    loss: float
    """The mean of what is minimised (a word's or a sentence's loss), without penalties, in nats."""
    penalties: dict[str, float] = field(default_factory=dict)
    """The mean of every penalty that the model adds."""
    learning_rate: float
    tokens_per_second: float
    """Target tokens, padding and validation left out."""
    seconds: float
    """Since the start of training, validation included, breaks between sessions left out."""


@dataclass(frozen=True, kw_only=True)
class DevLine:
    """A validation."""

    kind: Literal["dev"] = "dev"
    update: int
    epoch: int
    score: float
    metric: str
    loss: float | None
    best: bool
    """Whether it is the best so far, and these weights are kept."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AverageLine:
    """The mean of several validations' weights, validated when training ended."""

    kind: Literal["average"] = "average"
    update: int
    epoch: int
    validations: tuple[int, ...]
    """Which ones, counted from one."""
    score: float
    metric: str
    loss: float | None
    best: bool
    """Whether it is better than the best of them alone, and is the model."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class EndLine:
    """How training ended; also what `train` returns."""

    kind: Literal["end"] = "end"
    update: int
    epoch: int
    reason: Ending
    score: float | None
    """The dev score of the weights that are kept: the best."""
    seconds: float

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended training before its time: Ctrl-C, or SIGTERM."""
        return self.reason in ("interrupted", "terminated")


Line = TrainLine | DevLine | AverageLine | EndLine


@runtime_checkable
class Reporter(Protocol):
    """Watches training. All five are called from the loop and hold it up while they run."""

    def on_update(self, progress: Progress) -> None:
        """After every update; costs no look at the loss."""

    def on_train(self, line: TrainLine, progress: Progress) -> None:
        """With every line of the log about the training loss."""

    def on_validation(self, line: DevLine, validation: Validation) -> None:
        """After every validation."""

    def on_average(self, line: AverageLine, validation: Validation) -> None:
        """Where weights were averaged, before the end."""

    def on_end(self, line: EndLine) -> None:
        """Once."""


class Log:
    """A file that lines are appended to; without a folder they go nowhere."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / LOG if folder else None

    def write(self, line: Line) -> None:
        if self._path:
            _append(self._path, json.dumps(asdict(line), ensure_ascii=False) + "\n")

    def begin(self, update: int) -> None:
        """Keep what was said up to this update, so that going on from there says nothing twice.
        The end of an earlier session, with its average, or half a line that a crash left, is
        dropped."""
        if self._path:
            with whole(self._path) as path:
                path.write_text(_text_up_to(self._path, update), encoding="utf-8")


def digest_up_to(path: Path, update: int) -> str:
    """Return the SHA-256 of the log's lines up to this update, which are on the disk then."""
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    return hashlib.sha256(_text_up_to(path, update).encode()).hexdigest()


def _append(path: Path, text: str) -> None:
    """Append a line whole or not at all."""
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
        said = json.loads(line)
        return said["kind"] not in ("average", "end") and bool(said["update"] <= update)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
