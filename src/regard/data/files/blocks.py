"""Parts of a file at equal distances, for decisions about the whole file."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from regard.errors import UserError
from regard.storage.files import open_bytes

NUM_BLOCKS = 1000
"""Number of blocks of a file."""
MIN_BLOCK, MAX_BLOCK = 1 << 12, 1 << 18
"""Smallest and largest number of bytes of a block."""
LINES_PER_BLOCK = 16
"""Number of lines of mean length in a block, within these bounds."""
MAX_BYTES = 1 << 24
"""Number of bytes of all blocks together."""
BEGINNING = 1 << 16
"""Number of bytes from which the length of lines is estimated."""
ALIGNMENT = 4
"""Largest number of bytes of a code unit, in UTF-32. Blocks begin at multiples of it."""


SMALL = 1 << 21
"""Number of bytes below which all rows are read."""
LONG_BEGINNING = 1 << 21
"""Number of bytes of the beginning that stay in memory."""


class Block(NamedTuple):
    """Bytes from inside a file. The first and the last line may be incomplete."""

    content: bytes
    distance: int
    """Number of bytes from the beginning of this block to the next one."""


class Blocks(NamedTuple):
    """Beginning of a file, blocks beyond the first one, and its end."""

    beginning: bytes
    """First bytes; all bytes of a small file."""
    inner: tuple[Block, ...] = ()
    end: bytes = b""
    """Last bytes of the file. The first line may be incomplete."""
    is_whole: bool = True
    """Whether the beginning is the whole file. Then there are no blocks."""

    def contents(self) -> Iterator[bytes]:
        """Yield parts of the whole file."""
        if self.is_whole:
            for begin in range(0, len(self.beginning), MIN_BLOCK):
                yield self.beginning[begin : begin + MIN_BLOCK]
        yield from (block.content for block in self.inner)
        yield self.end


def blocks_of(path: Path) -> Blocks:
    """Return the beginning of a file, and of a large file blocks at equal distances. A gzip file is
    unpacked once; of another file, only the blocks are read. Memory is bounded. UserError if the
    file cannot be read."""
    status = path.stat()
    return _blocks(path, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=1)
def _blocks(path: Path, stamp: tuple[int, int]) -> Blocks:
    size, _ = stamp
    try:
        with open_bytes(path) as file:
            beginning = file.read(LONG_BEGINNING)
            if len(beginning) < min(SMALL, LONG_BEGINNING):
                return Blocks(beginning)
            length = _length(beginning[:BEGINNING])
            if file.seekable():
                inner, end = _at_places(file, size, length)
            else:
                inner, end = _of_stream(beginning, file, length)
            return Blocks(beginning, inner, end, is_whole=False)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _length(beginning: bytes) -> int:
    """Return the number of bytes of a block of a file with this beginning."""
    wanted = LINES_PER_BLOCK * len(beginning) // (beginning.count(b"\n") + 1)
    return min(max(wanted, MIN_BLOCK), MAX_BLOCK) // ALIGNMENT * ALIGNMENT


def _at_places(file: BufferedIOBase, size: int, length: int) -> tuple[tuple[Block, ...], bytes]:
    """Return the blocks and the end of a file of this size, in which any place can be read."""
    end = max(size - BEGINNING, 0) // ALIGNMENT * ALIGNMENT
    number = max(min(NUM_BLOCKS, MAX_BYTES // length, end // length), 1)
    distance = (end // number // ALIGNMENT + 1) * ALIGNMENT
    blocks, covered = list[Block](), 0
    for place in range(distance, end, distance):
        if place < covered:
            continue
        file.seek(place)
        content = file.read(min(length, end - place))
        while content.count(b"\n") < 2 and len(content) < min(end - place, MAX_BLOCK):
            content += file.read(min(len(content), end - place - len(content)))
        covered = place + len(content)
        blocks.append(Block(content, max(distance, len(content))))
    file.seek(end)
    return tuple(blocks), file.read()


def _of_stream(
    beginning: bytes, file: BufferedIOBase, length: int
) -> tuple[tuple[Block, ...], bytes]:
    """Return every n-th block of a file that can only be read from its beginning to its end, and
    its end. If the blocks are too many, every second one is dropped, and n is doubled."""
    largest, step, number = min(2 * NUM_BLOCKS, MAX_BYTES // length), 1, 0
    contents, last = list[bytes](), deque[bytes](maxlen=-(-BEGINNING // length))
    for content in _parts(beginning, file, length):
        if number % step == 0:
            contents.append(content)
            if len(contents) > largest:
                del contents[1::2]
                step *= 2
        number += 1
        last.append(content)
    end = number - len(last)
    inner = contents[1 : -(-end // step)]
    return tuple(Block(content, step * length) for content in inner), b"".join(last)


def _parts(beginning: bytes, file: BufferedIOBase, length: int) -> Iterator[bytes]:
    """Yield parts of this length of a file after its beginning was read, the beginning included."""
    place = len(beginning) // length * length
    yield from (beginning[begin : begin + length] for begin in range(0, place, length))
    rest = beginning[place:]
    while content := rest + file.read(length - len(rest)):
        rest = b""
        yield content
