"""Parts of an input: consecutive lines of a file, by byte offset, or consecutive items.

    bytes of the file     |line 1|line 2     |3|line 4        |5|6|
    equal shares          0            |            |             size
    parts of whole lines  |line 1|line 2     |3|line 4        |5|6|
                          [  part 0          )[  part 1       )[2 )

A line belongs to the part in whose share its first byte lies. So every line is in exactly one part,
blank lines included, and a part can be read without the bytes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Generic, TypeVar

from regard.data.files.lines import MAX_LINE, check_beginning
from regard.errors import UserError
from regard.storage.files import GZIP, check_input, unreadable

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.inference.loop import Run
    from regard.runtime.progress import OnProgress

Item = TypeVar("Item")

BLOCK = 1 << 20
"""Number of bytes that are read at once to count lines."""
NUM_CHUNKS, MIN_BYTES, MAX_BYTES = 256, 1 << 13, 1 << 20
"""Number of chunks of an input, and bounds of the number of bytes of a chunk, which come first."""
COUNTED_AT_A_TIME = 10_000
"""Number of items between two reports of progress while items are counted."""
STATEFUL = ("utf-7", "hz", "iso2022")
"""Beginnings of the names of encodings in which the meaning of bytes depends on those before."""


@dataclass(frozen=True)
class Part:
    """Consecutive lines or items of an input."""

    number: int
    """Number of the part, from 0."""
    begin: int
    """First byte of lines, or first item, from 0."""
    end: int
    """End of the bytes or items, exclusive."""
    first_line: int = 1
    """Number of the first line in the file, from 1. Items are counted by `begin`."""


@dataclass(frozen=True)
class Shard:
    """One of equal parts of an input."""

    number: int
    """Number of the part, from 1."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of a text such as 2/4. UserError for another text."""
        number, slash, count = text.partition("/")
        if slash and all(part.isascii() and part.isdecimal() for part in (number, count)):
            shard = cls(int(number), int(count))
            if 1 <= shard.number <= shard.count:
                return shard
        raise UserError(
            f"--shard is {text[:40]!r}: expected the number of a part and the number of parts, "
            "such as 2/4 for the second of four"
        )

    def of_lines(self, path: Path) -> Part:
        """Return the lines of this shard of a file, as in `line_chunks`."""
        with _opened(path) as file:
            size = file.seek(0, 2)
            cuts = [size * number // self.count for number in (self.number - 1, self.number)]
            begin, end = (_next_line(file, cut) for cut in cuts)
            return Part(self.number - 1, begin, end, 1 + _num_line_ends(file, 0, begin))

    def of_items(self, count: int) -> Part:
        """Return the items of this shard of an input with `count` items."""
        cuts = [count * number // self.count for number in (self.number - 1, self.number)]
        return Part(self.number - 1, *cuts)


def line_chunks(path: Path, num_bytes: int | None = None) -> list[Part]:
    """Return all lines of a file as chunks of about `num_bytes` bytes (default: by its size).
    Chunks are not empty. UserError if the file cannot be divided: a stream, or a gzip file."""
    with _opened(path) as file:
        size = file.seek(0, 2)
        share = num_bytes or min(max(size // NUM_CHUNKS, MIN_BYTES), MAX_BYTES)
        cuts = [0]
        while cuts[-1] < size:
            cuts.append(_next_line(file, min((cuts[-1] // share + 1) * share, size)))
        parts, line = list[Part](), 1
        for begin, end in pairwise(cuts):
            parts.append(Part(len(parts), begin, end, line))
            line += _num_line_ends(file, begin, end)
        return parts


def item_chunks(count: int, unit: int) -> list[Part]:
    """Return `count` items as chunks of a multiple of `unit` items: those that are processed
    together."""
    size = unit * min(max(count // NUM_CHUNKS // unit, 1), 8)
    return [
        Part(number, begin, min(begin + size, count))
        for number, begin in enumerate(range(0, count, size))
    ]


def check_divisible(path: Path, encoding: str) -> None:
    """Raise a UserError unless lines of this encoding end with the byte LF alone, so that a part of
    the file can be decoded, or if the beginning of the file is not text."""
    name = encoding.replace("_", "").lower()
    if "\n".encode(encoding) != b"\n" or name.startswith(STATEFUL):
        raise UserError(
            f"{path} is {encoding.upper()}, which cannot be read from the middle: save it as UTF-8"
        )
    if encoding == "utf-8":
        with _opened(path) as file:
            check_beginning(file.readline(MAX_LINE), path)


class Items(Generic[Item]):
    """Items of an input that is read from its beginning, such as rows of a table. Parts in
    increasing order are read in one pass."""

    follow: ClassVar[bool] = False

    def __init__(
        self, read: Callable[[], Iterator[Item]], unit: int, table: SourceTable | None = None
    ) -> None:
        """`unit` is the number of items that are processed together, and `table` the table whose
        rows they are."""
        self.table = table
        self._unit = unit
        self._read = read
        self._rest: Iterator[Item] = iter(())
        self._next: int | None = None

    def of(self, part: Part | None) -> Iterator[Item]:
        """Yield the items of a part, or all items."""
        if part is None:
            yield from self._read()
            return
        if self._next is None or self._next > part.begin:
            self._rest, self._next = self._read(), 0
        for _ in islice(self._rest, part.begin - self._next):
            pass
        self._next = part.begin
        for item in islice(self._rest, part.end - part.begin):
            self._next += 1
            yield item

    def chunks(self, run: Run) -> Iterator[list[Item]]:
        """Yield lists of items."""
        return chunks(self.of(run.part), self._unit)

    def check_divisible(self) -> None:
        """Items can always be divided."""

    def part_of(self, shard: Shard) -> Part:
        """Return the items of a shard."""
        return shard.of_items(sum(1 for _ in self._read()))

    def plan(self, on_progress: OnProgress) -> list[Part]:
        """Return all items as chunks, and report the number of items that are counted."""
        number = 0
        for number, _ in enumerate(self._read(), 1):
            if number % COUNTED_AT_A_TIME == 0:
                on_progress("counting", number, None)
        return item_chunks(number, self._unit)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of at most `size` items, such as lines."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _opened(path: Path) -> BinaryIO:
    """Open a file that can be divided by byte offset."""
    check_input(path)
    if not path.is_file():
        raise UserError(f"{path} is a stream, which cannot be divided: name a file")
    try:
        file = path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from error
    if file.peek(2)[:2] == GZIP:
        file.close()
        raise UserError(f"{path} is gzipped, so it cannot be divided: unpack it first (gunzip)")
    return file


def _next_line(file: BinaryIO, offset: int) -> int:
    """Return the offset of the first line that begins at or after this offset; the size of the file
    if none does."""
    if offset == 0:
        return 0
    file.seek(offset - 1)
    while (content := file.readline(BLOCK)) and not content.endswith(b"\n"):
        pass
    return file.tell()


def _num_line_ends(file: BinaryIO, begin: int, end: int) -> int:
    file.seek(begin)
    number = 0
    while begin < end and (block := file.read(min(BLOCK, end - begin))):
        number += block.count(b"\n")
        begin += len(block)
    return number
