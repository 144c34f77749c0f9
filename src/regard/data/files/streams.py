"""Lines of pipes, terminals and growing files, as they arrive."""

from __future__ import annotations

import io
import os
import select
import time

BYTES_AT_A_TIME = 1 << 16
POLL_SECONDS = 0.2
"""Seconds between two reads at the end of a growing file."""


class LineStream(io.BufferedIOBase):
    """Lines of an open file descriptor. `has_line` returns without waiting for a line.

    With `follow`, reading at the end of a file waits until the file grows, as `tail -f` does."""

    def __init__(self, descriptor: int, name: str, *, follow: bool = False) -> None:
        super().__init__()
        self.name = name
        self._descriptor = descriptor
        self._follow = follow
        self._buffer = bytearray()
        self._is_at_end = False

    def has_line(self) -> bool:
        """Return whether `readline` returns without waiting: with a whole line, or at the end."""
        while b"\n" not in self._buffer and not self._is_at_end:
            try:
                is_ready = bool(select.select([self._descriptor], [], [], 0)[0])
            except OSError:  # Windows selects sockets only
                return False
            if not is_ready or not self._read_part():
                break
        return b"\n" in self._buffer or self._is_at_end

    def readline(self, size: int | None = -1, /) -> bytes:
        """Wait for a line and return it, or its first `size` bytes. Empty at the end."""
        maximum = -1 if size is None else size
        begin = 0
        while (newline := self._buffer.find(b"\n", begin)) < 0 and not self._is_at_end:
            begin = len(self._buffer)
            if 0 <= maximum <= begin:
                break
            if not self._read_part() and self._follow:
                time.sleep(POLL_SECONDS)
        length = newline + 1 if newline >= 0 else len(self._buffer)
        if maximum >= 0:
            length = min(length, maximum)
        line = bytes(self._buffer[:length])
        del self._buffer[:length]
        return line

    def _read_part(self) -> bool:
        """Read once, which waits in a pipe. Return whether there were any bytes."""
        part = os.read(self._descriptor, BYTES_AT_A_TIME)
        self._buffer += part
        self._is_at_end = not part and not self._follow
        return bool(part)
