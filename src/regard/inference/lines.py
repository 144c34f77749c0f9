"""Lines of a file or of the standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from regard.errors import UserError
from regard.inference.parts import Part, Shard, check_divisible, chunks, line_chunks
from regard.storage.files import check_input, exists, shorten_name

if TYPE_CHECKING:
    from regard.data.files.lines import LineProblem
    from regard.data.files.streams import LineStream
    from regard.data.files.tables import Row
    from regard.data.recognition.encodings import Encoding
    from regard.inference.loop import Run
    from regard.inference.tables import SourceFile
    from regard.runtime.progress import OnProgress

STREAM = "-"
"""Name of the standard input."""


class Source(NamedTuple):
    """Source of an input."""

    number: int
    """Number of the line or row in the input, from 0."""
    text: str
    line: int
    """Number of the line in the file, from 1."""
    row: Row | None = None
    """Row of a table."""
    prefix: str = ""
    """Text that the output begins with."""


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
        encoding: str = "utf-8",
        *,
        follow: bool = False,
        part: Part | None = None,
    ) -> LineInput:
        """Open a file ("-" is the standard input), or a part of it, until `files` close. A stream
        is UTF-8. `report` takes lines that cannot be read as they are. UserError if the file cannot
        be opened."""
        from regard.data.files.lines import read_lines
        from regard.data.files.streams import LineStream

        if name == STREAM:
            stream = None
            with suppress(OSError, ValueError):  # a stream that is no file of the system
                stream = LineStream(sys.stdin.fileno(), "standard input")
            return cls(read_lines(name if stream is None else stream, report), stream)
        if not exists(Path(name)):
            raise UserError(
                f"cannot read {shorten_name(name)}: no such file or directory; to read a text "
                "instead of a file, pipe it into the command: echo TEXT | regard ..."
            )
        if follow:
            file = files.enter_context(check_input(name).open("rb", buffering=0))
            stream = LineStream(file.fileno(), name, follow=True)
            return cls(read_lines(stream, report), stream)
        if part is None:
            return cls(read_lines(name, report, encoding))
        from regard.inference.byte_range import open_range

        content = files.enter_context(open_range(name, part.begin, part.end))
        return cls(read_lines(content, report, encoding, part.first_line))

    def chunks(self, size: int) -> Iterator[list[str]]:
        """Yield lists of at most `size` lines. A list ends before a line that has not arrived, so
        that the outputs of the lines before it need not wait."""
        if self.stream is None:
            yield from chunks(self.lines, size)
            return
        for line in self.lines:
            chunk = [line]
            while len(chunk) < size and self.stream.has_line():
                if (following := next(self.lines, None)) is None:
                    break
                chunk.append(following)
            yield chunk


def encoding_of(name: str, encoding: str | None, warn: Callable[[str], None]) -> Encoding:
    """Return the encoding of this name, or recognise that of a file, with a warning if it is not
    certain."""
    from regard.data.recognition.formats import encoding_of_lines

    form = encoding_of_lines(Path(name), encoding)
    if not form.is_certain:
        warn(
            f"{name}: read as {form.name} ({form.example!r}); for another encoding: --encoding NAME"
        )
    return form


@dataclass(frozen=True)
class LineSources:
    """Lines of a file as sources."""

    table: ClassVar[None] = None
    name: str
    encoding: Encoding | None
    """Encoding of the file, or None for lines that are read as they arrive, as UTF-8."""
    follow: bool
    size: int
    """Number of lines that are processed together."""

    @classmethod
    def of(cls, file: SourceFile, size: int, warn: Callable[[str], None]) -> LineSources:
        """Return the lines of a file, and recognise its encoding unless it is set."""
        name, is_whole = file.file, file.file != STREAM and not file.follow
        if file.encoding is not None and not is_whole:
            shown = "the standard input" if name == STREAM else name
            raise UserError(
                f"--encoding is for whole files, but {shown} is read as it arrives, as UTF-8: "
                "leave it out"
            )
        encoding = encoding_of(name, file.encoding, warn) if is_whole else None
        return cls(name, encoding, file.follow, size)

    def chunks(self, run: Run) -> Iterator[list[Source]]:
        """Open the file, and yield lists of lines."""
        encoding = "utf-8" if self.encoding is None else self.encoding.reading
        report = run.faults.add_problem
        lines = LineInput.open(
            self.name, run.files, report, encoding, follow=self.follow, part=run.part
        )
        number = 0 if run.part is None else run.part.first_line - 1
        for chunk in lines.chunks(1 if self.follow else self.size):
            yield [Source(place, line, place + 1) for place, line in enumerate(chunk, number)]
            number += len(chunk)

    def part_of(self, shard: Shard) -> Part:
        """Return the lines of a shard. UserError if the file cannot be divided."""
        self.check_divisible()
        return shard.of_lines(Path(self.name))

    def plan(self, on_progress: OnProgress) -> list[Part]:
        """Return all lines as chunks."""
        del on_progress
        return line_chunks(Path(self.name))

    def check_divisible(self) -> None:
        """Raise a UserError if the file cannot be read from the middle."""
        check_divisible(Path(self.name), "utf-8" if self.encoding is None else self.encoding.name)
