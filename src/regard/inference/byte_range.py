"""A range of the bytes of a file, as a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.storage.files import unreadable


def open_range(name: str | Path, begin: int, end: int) -> io.BufferedReader:
    """Open the bytes of a file from `begin` to `end`, exclusive. UserError if it cannot be read."""
    path = Path(name)
    try:
        file = path.open("rb", buffering=0)
        file.seek(begin)
    except OSError as error:
        raise unreadable(name, error) from error
    return io.BufferedReader(_Range(file, str(name), end - begin), buffer_size=1 << 16)


class _Range(io.RawIOBase):
    """The next bytes of an open file."""

    def __init__(self, file: io.FileIO, name: str, num_bytes: int) -> None:
        self._file = file
        self._rest = num_bytes
        self.name, self.mode = name, "rb"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(min(len(buffer), self._rest))
        if not content and self._rest:
            raise UserError(f"{self.name} has become shorter while it was read")
        buffer[: len(content)] = content
        self._rest -= len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
