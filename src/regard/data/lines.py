"""Files as lines of text, and what is said of lines that cannot be used."""

from __future__ import annotations

import gzip
import logging
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import starmap
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from regard.errors import UserError

log = logging.getLogger(__name__)

Fault = Literal["blank", "one column", "not UTF-8"]

MEANINGS: dict[Fault, str] = {
    "blank": "with a blank side",
    "one column": "without a tab",
    "not UTF-8": "not UTF-8",
}
LINES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be used as it stands, and what of it could be read."""

    path: str
    line: int
    kind: Fault
    text: str


@dataclass
class Places:
    """Lines by their numbers, of which only the first few are kept."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if self.count <= LINES_SHOWN:
            self.first.append(line)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.first))
        more = f" and {self.count - LINES_SHOWN} more" if self.count > LINES_SHOWN else ""
        return f"{'line' if self.count == 1 else 'lines'} {shown}{more}"


@dataclass
class LeftOut:
    """How many lines were left out of each file, why, and where the first of them stand."""

    places: dict[str, dict[Fault, Places]] = field(default_factory=dict)

    def add(self, problem: Problem) -> None:
        kinds = self.places.setdefault(problem.path, {})
        kinds.setdefault(problem.kind, Places()).add(problem.line)

    def has(self, kind: Fault) -> bool:
        return any(kind in kinds for kinds in self.places.values())

    def summary(self) -> tuple[str, ...]:
        """A sentence for each file."""
        return tuple(starmap(_left_out, self.places.items()))


def read_lines(
    source: str | Path | BinaryIO | BufferedIOBase, report: Callable[[Problem], None] | None = None
) -> Iterator[str]:
    """Give every line of a file ("-" is the standard input) or binary stream, as it comes.

    Blank lines are kept, so that there are as many answers as lines. Bytes that are not UTF-8 are
    replaced by U+FFFD and the line is reported: to `report`, or to the log as a warning.
    UserError where the file cannot be read.
    """
    report = report or _warn
    if not isinstance(source, str | Path):
        return _replacing(source, str(getattr(source, "name", "input")), report)
    if str(source) == "-":
        return _replacing(sys.stdin.buffer, "standard input", report)
    return _to_the_end(
        open_bytes(source), str(source), report
    )  # opened now, so that errors come now


def numbers_of(lines: Sequence[int]) -> str:
    """The first few line numbers in words."""
    return str(Places(len(lines), list(lines[:LINES_SHOWN])))


class Line(NamedTuple):
    """A line without its end; `good` says whether it is UTF-8."""

    number: int
    text: str
    good: bool


def open_bytes(path: str | Path) -> BufferedIOBase:
    """A file as it is, or what was gzipped in it; UserError where it cannot be read."""
    path = Path(path)
    try:
        file = path.open("rb")
        if file.peek(2)[:2] != b"\x1f\x8b":
            return file
        file.close()
        return gzip.open(path, "rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


def decoded(
    file: Iterable[bytes], path: str | Path, otherwise: str | None = None
) -> Iterator[Line]:
    """The lines of an open file. Each ends with \\n or \\r\\n and nothing else; a byte order
    mark is left out. Lines that are not UTF-8 are read in the encoding `otherwise`, if there is
    one. UserError for UTF-16, and where reading breaks off."""
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            if number == 1:
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise UserError(f"{path} is UTF-16: save it as UTF-8")
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield _decoded(number, line, otherwise)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path} after line {number}: {error}") from error


def _decoded(number: int, line: bytes, otherwise: str | None) -> Line:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return Line(number, line.decode("utf8"), good=True)
    except UnicodeDecodeError:
        if otherwise is not None:
            return Line(number, line.decode(otherwise), good=True)
        return Line(number, line.decode("utf8", errors="replace"), good=False)


def _left_out(path: str, kinds: dict[Fault, Places]) -> str:
    count = sum(at.count for at in kinds.values())
    reasons = ", ".join(f"{at.count} {MEANINGS[kind]} ({at})" for kind, at in kinds.items())
    return f"left out {count} {'line' if count == 1 else 'lines'} of {path}: {reasons}"


def _to_the_end(
    file: BufferedIOBase, path: str, report: Callable[[Problem], None]
) -> Iterator[str]:
    with file:
        yield from _replacing(file, path, report)


def _replacing(
    file: Iterable[bytes], path: str, report: Callable[[Problem], None]
) -> Iterator[str]:
    for line in decoded(file, path):
        if not line.good:
            report(Problem(path, line.number, "not UTF-8", line.text))
        yield line.text


def _warn(problem: Problem) -> None:
    log.warning(
        "%s, line %d is not UTF-8: what could not be read became U+FFFD", problem.path, problem.line
    )
