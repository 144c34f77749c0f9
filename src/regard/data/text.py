"""Reading texts: pairs to learn from and lines to translate, with every lost line named."""

from __future__ import annotations

import gzip
import logging
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import starmap, zip_longest
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
class Pair:
    """A source and its target, with the line (from 1) where they stand."""

    source: str
    target: str
    line: int


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


@dataclass(frozen=True)
class Corpus:
    """Pairs in their order, and the lines that were left out."""

    pairs: tuple[Pair, ...]
    problems: tuple[Problem, ...] = ()

    def each_line(self) -> Iterator[Pair | Problem]:
        """The pairs, then the problems."""
        yield from self.pairs
        yield from self.problems

    @property
    def left_out(self) -> LeftOut:
        """The problems, counted."""
        left_out = LeftOut()
        for problem in self.problems:
            left_out.add(problem)
        return left_out

    def summary(self) -> tuple[str, ...]:
        """A sentence for each file that lines were left out of."""
        return self.left_out.summary()


def read_pairs(
    path: str | Path, *, target_path: str | Path | None = None, limit: int | None = None
) -> Corpus:
    """Read pairs from one file (source, tab, target; further columns are ignored) or from two.

    Lines end with \\n or \\r\\n and nothing else. Files may be gzipped and begin with a byte order
    mark. A line that is blank on a side, has no tab or is not UTF-8 is left out and listed. `limit`
    is the number of pairs after which reading stops. UserError where a file cannot be read, two
    files differ in length, or not one pair is found.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit is {limit}: give at least 1, or none to read all pairs")
    return _collect(each_line(path, target_path), (path, target_path), limit)


def each_line(path: str | Path, target_path: str | Path | None = None) -> Iterator[Pair | Problem]:
    """What `read_pairs` reads, as it comes: a pair or a problem for each line. Nothing is held."""
    with _open(path) as file:
        if target_path is None:
            for line in _lines(file, path):
                yield _columns(line, str(path))
            return
        with _open(target_path) as target_file:
            sides = zip_longest(_lines(file, path), _lines(target_file, target_path))
            paths = str(path), str(target_path)
            for source, target in sides:
                if source is None or target is None:
                    raise UserError(_lengths_differ(paths))
                yield _couple(source, target, paths)


def parse_pairs(lines: Iterable[bytes], path: str | Path, *, limit: int | None = None) -> Corpus:
    """Read pairs from the lines of an open file; `path` is what problems call it."""
    found = (_columns(line, str(path)) for line in _lines(lines, path))
    return _collect(found, (path, None), limit)


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
    return _to_the_end(_open(source), str(source), report)  # opened now, so that errors come now


def numbers_of(lines: Sequence[int]) -> str:
    """The first few line numbers in words."""
    return str(Places(len(lines), list(lines[:LINES_SHOWN])))


def no_pairs(paths: tuple[str | Path, str | Path | None], left_out: LeftOut) -> UserError:
    """What is wrong with files without a single pair, and what to do."""
    names = " and ".join(str(path) for path in paths if path is not None)
    return UserError(f"no pairs in {names}: {'; '.join(_hints(left_out))}")


class _Line(NamedTuple):
    """A line without its end; `good` says whether it is UTF-8."""

    number: int
    text: str
    good: bool


def _open(path: str | Path) -> BufferedIOBase:
    path = Path(path)
    try:
        file = path.open("rb")
        if file.peek(2)[:2] != b"\x1f\x8b":
            return file
        file.close()
        return gzip.open(path, "rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


def _lines(file: Iterable[bytes], path: str | Path) -> Iterator[_Line]:
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            if number == 1:
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise UserError(f"{path} is UTF-16: save it as UTF-8")
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield _decoded(number, line)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path} after line {number}: {error}") from error


def _decoded(number: int, line: bytes) -> _Line:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return _Line(number, line.decode("utf8"), good=True)
    except UnicodeDecodeError:
        return _Line(number, line.decode("utf8", errors="replace"), good=False)


def _columns(line: _Line, path: str) -> Pair | Problem:
    columns = line.text.split("\t")
    if not line.good:
        return Problem(path, line.number, "not UTF-8", line.text)
    if len(columns) == 1 and line.text.strip():
        return Problem(path, line.number, "one column", line.text)
    source, target = columns[0].strip(), "".join(columns[1:2]).strip()
    if not source or not target:
        return Problem(path, line.number, "blank", line.text)
    return Pair(source, target, line.number)


def _couple(source: _Line, target: _Line, paths: tuple[str, str]) -> Pair | Problem:
    for line, path in zip((source, target), paths, strict=True):
        if not line.good:
            return Problem(path, line.number, "not UTF-8", line.text)
        if not line.text.strip():
            return Problem(path, line.number, "blank", line.text)
    # A tab inside a text would be a third column wherever the pair is written down.
    text, target_text = (line.text.replace("\t", " ").strip() for line in (source, target))
    return Pair(text, target_text, source.number)


def _collect(
    found: Iterable[Pair | Problem],
    paths: tuple[str | Path, str | Path | None],
    limit: int | None,
) -> Corpus:
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for each in found:
        if isinstance(each, Problem):
            problems.append(each)
            continue
        pairs.append(each)
        if len(pairs) == limit:
            break
    corpus = Corpus(tuple(pairs), tuple(problems))
    if not pairs:
        raise no_pairs(paths, corpus.left_out)
    return corpus


def _hints(left_out: LeftOut) -> Iterator[str]:
    yield from left_out.summary() or ["it is empty"]
    if left_out.has("one column"):
        yield "put a tab between source and target, or give the targets as a second file"
    if left_out.has("not UTF-8"):
        yield "save it as UTF-8"


def _lengths_differ(paths: tuple[str, ...]) -> str:
    counts = []
    for path in paths:
        with _open(path) as file:
            counts.append(f"{path} has {sum(1 for _ in _lines(file, path))} lines")
    return f"{' and '.join(counts)}: line by line they should be translations of each other"


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
    for line in _lines(file, path):
        if not line.good:
            report(Problem(path, line.number, "not UTF-8", line.text))
        yield line.text


def _warn(problem: Problem) -> None:
    log.warning(
        "%s, line %d is not UTF-8: what could not be read became U+FFFD", problem.path, problem.line
    )
