"""Parts of a file at equal distances, for decisions about the whole file."""

from __future__ import annotations

import zlib
from collections import deque
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from regard.errors import UserError
from regard.storage.files import GZIP, open_bytes

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
USUAL_RATIO = 4
"""Usual ratio of unpacked to packed bytes of text."""


class Block(NamedTuple):
    """Bytes from inside a file. The first and the last line may be incomplete."""

    content: bytes
    distance: int
    """Number of bytes from the beginning of this block to the next one."""


class Blocks(NamedTuple):
    """Blocks of a file, without its beginning, and its end."""

    inner: tuple[Block, ...]
    end: bytes
    """Last bytes of the file. The first line may be incomplete."""


def is_small(path: Path) -> bool:
    """Return whether a file is read completely in a time that does not matter."""
    size = path.stat().st_size
    if size > SMALL:
        return False
    with path.open("rb") as file:
        return size <= SMALL // USUAL_RATIO or file.read(len(GZIP)) != GZIP


def blocks_of(path: Path) -> Blocks:
    """Return blocks at equal distances in a file. A gzip file is unpacked once; of another file,
    only the blocks are read. Memory is bounded. UserError if the file cannot be read."""
    status = path.stat()
    return _blocks(path, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=1)
def _blocks(path: Path, stamp: tuple[int, int]) -> Blocks:
    size, _ = stamp
    try:
        with open_bytes(path) as file:
            length = _length(file.peek(BEGINNING))
            return _at_places(file, size, length) if file.seekable() else _of_stream(file, length)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _length(beginning: bytes) -> int:
    """Return the number of bytes of a block of a file with this beginning."""
    wanted = LINES_PER_BLOCK * len(beginning) // (beginning.count(b"\n") + 1)
    return min(max(wanted, MIN_BLOCK), MAX_BLOCK) // ALIGNMENT * ALIGNMENT


def _at_places(file: BufferedIOBase, size: int, length: int) -> Blocks:
    """Return the blocks of a file of this size, in which any place can be read."""
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
    return Blocks(tuple(blocks), file.read())


def _of_stream(file: BufferedIOBase, length: int) -> Blocks:
    """Return every n-th block of a file that can only be read from its beginning to its end. If the
    blocks are too many, every second one is dropped, and n is doubled."""
    largest, step, number = min(2 * NUM_BLOCKS, MAX_BYTES // length), 1, 0
    contents, last = list[bytes](), deque[bytes](maxlen=-(-BEGINNING // length))
    while content := file.read(length):
        if number % step == 0:
            contents.append(content)
            if len(contents) > largest:
                del contents[1::2]
                step *= 2
        number += 1
        last.append(content)
    end = number - len(last)
    inner = contents[1 : -(-end // step)]
    return Blocks(tuple(Block(content, step * length) for content in inner), b"".join(last))
