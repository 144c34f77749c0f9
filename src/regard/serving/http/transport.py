"""Transport of a connection: slow clients receive responses, and clients that are gone are
noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

LINGER_SECONDS = 2.0
"""Time in which the rest of a request is read after the response, so that a client that is still
sending receives the response."""
READ_BYTES = 1 << 18
"""Bytes of a response that a client must read in each period, unless it reads all."""
BEGINNING = b"HTTP/1.1 "
"""First bytes of every response."""
PROBE_SECONDS = tuple(0.1 * 2**number for number in range(len(BEGINNING) - 1))
"""Times between the bytes of `BEGINNING` that are sent early."""


class Transport:
    """Transport around that of asyncio. All other methods are those of asyncio's transport."""

    def __init__(
        self, transport: asyncio.Transport, seconds: float, is_receiving: Callable[[], bool]
    ) -> None:
        """`seconds` is the period in which a client must read `READ_BYTES`. `is_receiving` returns
        whether the client may still be sending a request when the connection is closed."""
        self._transport = transport
        self._seconds = seconds
        self._is_receiving = is_receiving
        self._loop = asyncio.get_running_loop()
        self._is_closing = False
        self._num_written = 0
        self._num_early = 0
        """Number of bytes of `BEGINNING` that were sent early."""
        self._reading: asyncio.TimerHandle | None = None
        self._probing: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Write data. The connection is closed if the client does not read it."""
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        early, self._num_early = self._num_early, 0
        self._write(data[early:])

    def close(self) -> None:
        """Close the connection when all data is sent. The rest of a request is read for a short
        time before, because closing would discard the response."""
        if self.is_closing():
            return
        self._is_closing = True
        if not self._is_receiving():
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # the client has reset the connection
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self._transport.close)

    def end(self) -> None:
        """Stop the timers of a connection that is lost, and release it."""
        self._is_receiving = bool
        for timer in (self._reading, self._probing):
            if timer is not None:
                timer.cancel()

    def probe(self) -> None:
        """Find out whether a client that sends no more still receives. A client that has closed its
        connection answers the first bytes of the response with a reset; to any other they are the
        beginning of the response."""
        if self._probing is None and not self._num_early:
            self._probe(iter(PROBE_SECONDS))

    def _probe(self, delays: Iterator[float]) -> None:
        delay = next(delays, None)
        if delay is not None and not self.is_closing():
            self._probing = self._loop.call_later(delay, self._send_early, delays)

    def _send_early(self, delays: Iterator[float]) -> None:
        self._write(BEGINNING[self._num_early : self._num_early + 1])
        self._num_early += 1
        self._probe(delays)

    def _write(self, data: bytes) -> None:
        self._transport.write(data)
        self._num_written += len(data)
        if self._reading is None and self._transport.get_write_buffer_size():
            self._expect_reading()

    def _expect_reading(self) -> None:
        num_read = self._num_written - self._transport.get_write_buffer_size()
        self._reading = self._loop.call_later(self._seconds, self._check_reading, num_read)

    def _check_reading(self, before: int) -> None:
        """Abort the connection if the client reads too little."""
        self._reading = None
        unread = self._transport.get_write_buffer_size()
        if unread and self._num_written - unread < before + READ_BYTES:
            self._transport.abort()
        elif unread:
            self._expect_reading()
