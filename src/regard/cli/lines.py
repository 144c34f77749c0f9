"""Lines in and lines out: what commands that answer line by line share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from regard.cli.output import warn
from regard.errors import UserError
from regard.files import resolved, whole

if TYPE_CHECKING:
    from regard.data.files.lines import LineProblem


def opened(files: ExitStack, path: Path | None) -> TextIO | None:
    """A file to write, which is there whole when `files` close, or not at all."""
    if path is None:
        return None
    unfinished = files.enter_context(whole(path))
    return files.enter_context(unfinished.open("w", encoding="utf8"))


def check_different(read: Iterable[str], *written: Path | None) -> None:
    """UserError where two files to write are one, or one is among the files that are read."""
    named = [path for path in written if path]
    files = [resolved(path) for path in named if path.is_file() or not path.exists()]
    if len(set(files)) < len(files):
        both = " and ".join(str(each) for each in named)
        raise UserError(f"what is written needs a file each, but two of these are one: {both}")
    for name in read:
        if name != "-" and resolved(name) in files:
            raise UserError(f"{name} is read, and would be written over: write to another file")


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """So many at a time."""
    rest = iter(lines)
    while chunk := list(islice(rest, size)):
        yield chunk


def warn_of_long(lines: Sequence[int], longest: int, outcome: str) -> None:
    """Say which lines, counted from 1, had more tokens than `data.max_length`, and what of it."""
    from regard.data.files.lines import numbers_of

    if lines:
        warn(
            f"{len(lines)} of the lines ({numbers_of(lines)}) had more than {longest} tokens "
            f"(data.max_length in training): {outcome}"
        )


def warn_of_refused(lines: Sequence[int], longest: int, outcome: str) -> None:
    """Say which lines, counted from 1, had too many tokens, and what of it."""
    from regard.data.files.lines import numbers_of

    if lines:
        warn(
            f"{len(lines)} of the lines ({numbers_of(lines)}) have more than {longest} tokens "
            f"{outcome}"
        )


def warn_of_problems(problems: Sequence[LineProblem]) -> None:
    """Say which lines were not UTF-8, had NUL characters or byte-order marks, if any."""
    from regard.data.files.lines import LeftOut, marks_removed

    places = LeftOut()
    for problem in problems:
        places.add(problem)
    for path, kinds in places.places.items():
        for kind, lines in kinds.items():
            if kind == "byte-order mark":
                warn(marks_removed(path, lines))
            elif kind == "NUL":
                warn(
                    f"{lines.count} of the lines of {path} have NUL characters ({lines}): if it is "
                    "UTF-16, save it as UTF-8"
                )
            else:
                warn(
                    f"{lines.count} of the lines of {path} are not UTF-8 ({lines}): what could not "
                    "be read became \ufffd"
                )
