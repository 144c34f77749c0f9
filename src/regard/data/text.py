"""Reading texts: pairs to learn from and lines to translate, with every lost line named."""

from __future__ import annotations

import gzip
import logging
import random
import sys
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import zip_longest
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


@dataclass(frozen=True)
class Corpus:
    """Pairs in their order, and the lines that were left out."""

    pairs: tuple[Pair, ...]
    problems: tuple[Problem, ...] = ()

    def summary(self) -> tuple[str, ...]:
        """A sentence for each file that lines were left out of."""
        by_path: defaultdict[str, list[Problem]] = defaultdict(list)
        for problem in self.problems:
            by_path[problem.path].append(problem)
        return tuple(_left_out(path, problems) for path, problems in by_path.items())


class HeldOut(NamedTuple):
    """What a corpus was split into."""

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]


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
    with _open(path) as file:
        if target_path is None:
            return parse_pairs(file, path, limit=limit)
        with _open(target_path) as target_file:
            sides = zip_longest(_lines(file, path), _lines(target_file, target_path))
            paths = str(path), str(target_path)
            return _collect((_couple(*both, paths) for both in sides), paths, limit)


def parse_pairs(lines: Iterable[bytes], path: str | Path, *, limit: int | None = None) -> Corpus:
    """Read pairs from the lines of an open file; `path` is what problems call it."""
    found = (_columns(line, str(path)) for line in _lines(lines, path))
    return _collect(found, (str(path),), limit)


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


def same_text(text: str) -> str:
    """What two texts share that differ only in case, white space or Unicode normal form."""
    return unicodedata.normalize("NFC", " ".join(text.split()).casefold())


def split_held_out(pairs: Sequence[Pair], sizes: tuple[int, int], seed: int) -> HeldOut:
    """Hold pairs out for dev and test so that no source is in two parts.

    Sources that are the same by `same_text` stay together with all their targets. The same seed
    gives the same split; each part keeps the order that came. UserError where the pairs are too
    few, or share their sources so much that a part cannot be filled.
    """
    if min(sizes) < 0 or sum(sizes) > len(pairs):
        raise UserError(f"cannot hold out {sizes[0]} and {sizes[1]} of {len(pairs)} pairs")
    parts = hold_out(pairs, sizes, seed)
    if (len(parts.dev), len(parts.test)) != sizes:
        num_sources = len({same_text(pair.source) for pair in pairs})
        raise UserError(
            f"cannot hold out {sizes[0]} and {sizes[1]} of {len(pairs)} pairs: they have only "
            f"{num_sources} different sources, and those with one source stay together"
        )
    return parts


def hold_out(pairs: Sequence[Pair], most: tuple[int, int], seed: int) -> HeldOut:
    """As `split_held_out`, but dev and test get fewer pairs where they cannot be filled."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        groups[same_text(pair.source)].append(index)
    shuffled = list(groups.values())
    random.Random(seed).shuffle(shuffled)
    part_of, room = [0] * len(pairs), [len(pairs), *most]
    for group in shuffled:
        part = next(part for part in (1, 2, 0) if room[part] >= len(group))
        room[part] -= len(group)
        for index in group:
            part_of[index] = part
    parts: tuple[list[Pair], list[Pair], list[Pair]] = [], [], []
    for pair, part in zip(pairs, part_of, strict=True):
        parts[part].append(pair)
    return HeldOut(*map(tuple, parts))


def numbers_of(lines: Sequence[int]) -> str:
    """The first few line numbers in words."""
    shown = ", ".join(map(str, lines[:LINES_SHOWN]))
    more = f" and {len(lines) - LINES_SHOWN} more" if len(lines) > LINES_SHOWN else ""
    return f"{'line' if len(lines) == 1 else 'lines'} {shown}{more}"


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


def _couple(
    source: _Line | None, target: _Line | None, paths: tuple[str, str]
) -> Pair | Problem | None:
    """None where one of two files has come to its end."""
    if source is None or target is None:
        return None
    for line, path in zip((source, target), paths, strict=True):
        if not line.good:
            return Problem(path, line.number, "not UTF-8", line.text)
        if not line.text.strip():
            return Problem(path, line.number, "blank", line.text)
    # A tab inside a text would be a third column wherever the pair is written down.
    text, target_text = (line.text.replace("\t", " ").strip() for line in (source, target))
    return Pair(text, target_text, source.number)


def _collect(
    found: Iterable[Pair | Problem | None], paths: tuple[str, ...], limit: int | None
) -> Corpus:
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for each in found:
        if isinstance(each, Pair):
            pairs.append(each)
        elif isinstance(each, Problem):
            problems.append(each)
        else:
            raise UserError(_lengths_differ(paths))
        if len(pairs) == limit:
            break
    if not pairs:
        raise UserError(f"no pairs in {' and '.join(paths)}: {'; '.join(_hints(problems))}")
    return Corpus(tuple(pairs), tuple(problems))


def _hints(problems: list[Problem]) -> Iterator[str]:
    yield from Corpus((), tuple(problems)).summary() or ["it is empty"]
    if any(problem.kind == "one column" for problem in problems):
        yield "put a tab between source and target, or give the targets as a second file"
    if any(problem.kind == "not UTF-8" for problem in problems):
        yield "save it as UTF-8"


def _lengths_differ(paths: tuple[str, ...]) -> str:
    counts = []
    for path in paths:
        with _open(path) as file:
            counts.append(f"{path} has {sum(1 for _ in _lines(file, path))} lines")
    return f"{' and '.join(counts)}: line by line they should be translations of each other"


def _left_out(path: str, problems: Sequence[Problem]) -> str:
    lines_of: defaultdict[Fault, list[int]] = defaultdict(list)
    for problem in problems:
        lines_of[problem.kind].append(problem.line)
    kinds = (f"{len(at)} {MEANINGS[kind]} ({numbers_of(at)})" for kind, at in lines_of.items())
    lines = "line" if len(problems) == 1 else "lines"
    return f"left out {len(problems)} {lines} of {path}: {', '.join(kinds)}"


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
