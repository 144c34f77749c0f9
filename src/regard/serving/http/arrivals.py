"""Arrivals: accepted connections from which no request has been read yet.

    accepted --> silent --first bytes--> waiting --its turn--> connections.py
                   |                       |
                   closed: too long,       status 503: too many wait
                   or the oldest of
                   too many

A probe does not wait for its turn, so it is answered while thousands of connections arrive. Silent
connections take no place among those with requests.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from regard.serving.http.parser import PROBE_LINES
from regard.serving.http.turns import Turns
from regard.serving.logs import log_error

ACCEPTED_AT_A_TIME = 256
"""Largest number of connections that are accepted before others are served."""
RETRY_SECONDS = 0.1
"""Time without accepting after the process had too many open files."""
PEEKED_BYTES = max(map(len, PROBE_LINES))
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Arrivals:
    """Accepted connections of one listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        maximum: int,
        seconds: float,
        connect: Callable[[socket.socket], Coroutine[Any, Any, Any]],
        reject: Callable[[socket.socket], None],
    ) -> None:
        """`maximum` is the largest number of silent connections, and of waiting ones. A connection
        is silent for at most `seconds`. `connect` opens a connection whose first bytes have
        arrived; `reject` answers and closes it."""
        self._listener = listener
        self._maximum = maximum
        self._seconds = seconds
        self._connect = connect
        self._reject = reject
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, float] = {}
        """Silent connections, the oldest first, with the time when they are closed."""
        self._turns = Turns()
        """Turns in which the waiting connections are opened."""
        self._end = math.inf
        """Time after which no connection is opened."""
        self._tasks = set[asyncio.Task[Any]]()
        """Tasks that open connections."""
        self._timer: asyncio.TimerHandle | None = None
        """Timer of the oldest silent connection."""
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to accept connections."""
        self._loop.add_reader(self._listener, self._accept)

    async def close(self, end: float) -> None:
        """Accept no further connection, close the silent ones, and open the others. Those that are
        not open at the time `end` of the event loop are rejected."""
        self._loop.remove_reader(self._listener)
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        for client in list(self._silent):
            self._close_silent(client)
        self._end = end
        while (len(self._turns) or self._tasks) and self._loop.time() < end:
            await asyncio.sleep(0.001)
        self._turns.finish()
        for _ in range(2):  # an open connection is read in the next iteration of the event loop
            await asyncio.sleep(0)

    def _accept(self) -> None:
        """Accept connections."""
        for _ in range(ACCEPTED_AT_A_TIME):
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in OUT_OF_FILES:
                    raise
                log_error(error)
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(RETRY_SECONDS, self.start)
                return
            client.setblocking(False)
            self._sort(client)

    def _sort(self, client: socket.socket) -> None:
        """Move a connection on if its first bytes have arrived."""
        try:
            beginning = client.recv(PEEKED_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._add_silent(client)
            return
        except OSError:  # reset by the client
            beginning = b""
        if client in self._silent:
            self._remove_silent(client)
        if not beginning:
            client.close()
        elif beginning.startswith(PROBE_LINES):
            self._open(client)
        elif len(self._turns) >= self._maximum:
            self._reject(client)
        else:
            self._turns.run(partial(self._open, client))

    def _add_silent(self, client: socket.socket) -> None:
        if client in self._silent:
            return
        self._silent[client] = self._loop.time() + self._seconds
        self._loop.add_reader(client, self._sort, client)
        if len(self._silent) > self._maximum:
            self._close_silent(next(iter(self._silent)))
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._close_oldest)

    def _remove_silent(self, client: socket.socket) -> None:
        del self._silent[client]
        self._loop.remove_reader(client)

    def _close_silent(self, client: socket.socket) -> None:
        self._remove_silent(client)
        client.close()

    def _close_oldest(self) -> None:
        """Close the connections that are silent for too long."""
        self._timer = None
        for client, end in list(self._silent.items()):
            if end > self._loop.time():
                self._timer = self._loop.call_at(end, self._close_oldest)
                return
            self._close_silent(client)

    def _open(self, client: socket.socket) -> None:
        if self._loop.time() >= self._end:
            self._reject(client)
            return
        task = self._loop.create_task(self._connect(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
