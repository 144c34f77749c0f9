"""Input and output of commands that work line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from regard.cli.output import warn
from regard.errors import UserError, counted
from regard.storage.files import check_input, exists, resolved, shorten_name, whole

if TYPE_CHECKING:
    from regard.data.files.lines import LineProblem
    from regard.data.files.streams import LineStream
    from regard.inference.parts import Part

Item = TypeVar("Item")

MOSTLY = 0.5
"""Share of unknown words above which a line is reported."""
UNREADABLE = "\ufffd"
"""Character in place of bytes that are not UTF-8."""
WORDS_SHOWN = 5
"""Number of unknown words in a message."""


def opened(files: ExitStack, path: Path | None) -> TextIO | None:
    """Open a file to write. It is complete when `files` close, or does not exist."""
    if path is None:
        return None
    unfinished = files.enter_context(whole(path))
    return files.enter_context(unfinished.open("w", encoding="utf8"))


def check_different(read: Iterable[str], *written: Path | None) -> None:
    """Raise a UserError if two files to write are the same, if one of them is read, or if one has
    the name of a compressed file."""
    named = [path for path in written if path]
    for path in named:
        if path.suffix.lower() == ".gz":
            raise UserError(f"cannot write {path}: files are not compressed; leave out .gz")
    files = [resolved(path) for path in named if path.is_file() or not path.exists()]
    if len(set(files)) < len(files):
        names = " and ".join(map(str, named))
        raise UserError(f"two of the files to write are the same: {names}. Name different files")
    for name in read:
        if name != "-" and resolved(name) in files:
            raise UserError(f"{name} would be overwritten while it is read: write to another file")


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of at most `size` items, such as lines."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


@dataclass(frozen=True)
class LineInput:
    """Lines of a file or of the standard input. `stream` is set if lines can arrive later: lines of
    the standard input, or of a file that is followed."""

    lines: Iterator[str]
    stream: LineStream | None = None

    @classmethod
    def open(
        cls,
        name: str,
        files: ExitStack,
        report: Callable[[LineProblem], None],
        *,
        follow: bool = False,
        encoding: str | None = None,
        part: Part | None = None,
    ) -> LineInput:
        """Open a file ("-" is the standard input), or a part of it, until `files` close. The
        encoding of a file is recognised unless it is set; a stream is UTF-8. UserError if it cannot
        be opened."""
        from regard.data.files.lines import read_lines
        from regard.data.files.streams import LineStream

        stream = None
        if name != "-" and not exists(Path(name)):
            raise UserError(
                f"cannot read {shorten_name(name)}: no such file or directory; to read a text "
                "instead of a file, pipe it into the command: echo TEXT | regard ..."
            )
        if encoding is not None and (name == "-" or follow):
            shown = "the standard input" if name == "-" else name
            raise UserError(
                f"--encoding is for whole files, but {shown} is read as it arrives, as UTF-8: "
                "leave it out"
            )
        if name == "-":
            with suppress(OSError, ValueError):  # a stream that is no file of the system
                stream = LineStream(sys.stdin.fileno(), "standard input")
        elif follow:
            file = files.enter_context(check_input(name).open("rb", buffering=0))
            stream = LineStream(file.fileno(), name, follow=True)
        if stream is not None or name == "-":
            return cls(read_lines(name if stream is None else stream, report), stream)
        encoding = encoding_of(name, encoding)
        if part is None:
            return cls(read_lines(name, report, encoding))
        from regard.inference.byte_range import open_range

        content = files.enter_context(open_range(name, part.begin, part.end))
        return cls(read_lines(content, report, encoding, part.first_line))

    def available(self, lines: Iterable[str], size: int) -> Iterator[list[str]]:
        """Yield lists of at most `size` of these lines. A list ends before a line that has not
        arrived, so that the outputs of the lines before it need not wait."""
        if self.stream is None:
            yield from chunks(lines, size)
            return
        rest = iter(lines)
        for line in rest:
            chunk = [line]
            while len(chunk) < size and self.stream.has_line():
                if (following := next(rest, None)) is None:
                    break
                chunk.append(following)
            yield chunk


@contextmanager
def naming_lines(lines: Sequence[int]) -> Iterator[None]:
    """Name the line in the error of a text that would take too much memory. `lines` are the lines
    of the texts, from 1."""
    from regard.tasks.memory import MemoryLimitError

    try:
        yield
    except MemoryLimitError as error:
        if error.place is None:
            raise
        raise UserError(f"line {lines[error.place]}: {error.reason}") from error


def encoding_of(name: str, encoding: str | None) -> str:
    """Return this encoding, or recognise that of a file, with a warning if it is not certain."""
    from regard.data.recognition.formats import encoding_of_lines

    form = encoding_of_lines(Path(name), encoding)
    if not form.is_certain:
        warn(
            f"{name}: read as {form.name} ({form.example!r}); for another encoding: --encoding NAME"
        )
    return form.reading


def warn_of_long(lines: Sequence[int], longest: int, outcome: str) -> None:
    """Warn of lines (counted from 1) with more tokens than `data.max_length`, with the outcome."""
    from regard.data.files.lines import numbers_of

    if lines:
        warn(
            f"{counted(len(lines), 'line')} of more than {longest} tokens ({numbers_of(lines)}; "
            f"data.max_length in training): {outcome}"
        )


def warn_of_refused(lines: Sequence[int], longest: int, outcome: str) -> None:
    """Warn of lines (counted from 1) with too many tokens, with the outcome."""
    from regard.data.files.lines import numbers_of

    if lines:
        warn(
            f"{counted(len(lines), 'line')} of more than {longest} tokens ({numbers_of(lines)}): "
            f"{outcome}"
        )


def warn_of_cut(number: int, places: str) -> None:
    """Warn of a number of outputs that were cut at the maximum length, with their places."""
    if number:
        was = "was" if number == 1 else "were"
        warn(
            f"{counted(number, 'output')} {was} cut at the maximum length ({places}): raise "
            "--max-length, or train the run longer if words are repeated"
        )


@dataclass
class UnknownWords:
    """Lines (counted from 1) of which most words are unknown to the model, and these words."""

    lines: list[int] = field(default_factory=list)
    words: dict[str, None] = field(default_factory=dict)

    def add(self, number: int, words: Iterable[str]) -> None:
        """Add a line and its unknown words. Bytes that could not be read have their own report."""
        words = [word for word in words if UNREADABLE not in word]
        if not words:
            return
        self.lines.append(number)
        if len(self.words) < WORDS_SHOWN:
            self.words |= dict.fromkeys(words)

    def warn(self) -> None:
        """Report the lines."""
        from regard.data.files.lines import numbers_of

        if self.lines:
            names = dict.fromkeys(map(_shown, self.words))
            shown = ", ".join(islice(names, WORDS_SHOWN))
            has = "has" if len(self.lines) == 1 else "have"
            warn(
                f"{counted(len(self.lines), 'line')} {has} mostly unknown words "
                f"({numbers_of(self.lines)}): "
                f"the vocabulary lacks {shown}"
            )

    def clear(self) -> None:
        """Forget the lines and words."""
        self.lines.clear()
        self.words.clear()


def _shown(word: str) -> str:
    """Return a word in quotes, or the name of a space, for which tokenizers write ▁."""
    return f'"{shorten_name(word)}"' if word.strip("▁ ") else "space"


def warn_of_problems(problems: Sequence[LineProblem]) -> None:
    """Warn of lines that are not of the encoding, or have NUL characters or a byte-order mark."""
    from regard.data.files.lines import NOTES, LeftOut, marks_removed

    places = LeftOut()
    for problem in problems:
        places.add(problem)
    encodings = {problem.path: problem.encoding for problem in problems}
    for path, kinds in places.places.items():
        for kind, lines in kinds.items():
            if kind == "byte-order mark":
                warn(marks_removed(path, lines))
            elif kind in NOTES:
                warn(NOTES[kind].format(counted(lines.count, "line"), path, lines))
            elif kind == "NUL":
                warn(
                    f"{path}: {counted(lines.count, 'line')} with NUL characters ({lines}); "
                    "if the file is "
                    "UTF-16, save it as UTF-8"
                )
            else:
                encoding = encodings[path].upper()
                warn(
                    f"{path}: {counted(lines.count, 'line')} not in {encoding} ({lines}); "
                    "bytes that cannot "
                    "be read became \ufffd"
                )
