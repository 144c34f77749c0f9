"""Turns: work of connections in small parts, so that no other connection waits long.

The event loop runs all callbacks of one iteration before it looks for new connections. Thousands of
connections that send at once would fill an iteration of seconds. Their work is queued here instead,
and one iteration does at most SECONDS of it. Because most work continues in a task, whose time is
not part of this, one iteration also has at most MAX_PARTS of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

SECONDS = 0.005
"""Time of one iteration of the event loop for queued work, without the last part of it."""
MAX_PARTS = 8
"""Largest number of parts of queued work of one iteration of the event loop."""


class Turns:
    """Queue of work in the order of its arrival."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue = deque[Callable[[], None]]()
        self._spent = 0.0
        """Time that the work of this iteration has taken."""
        self._num_parts = 0
        """Number of parts of work of this iteration."""
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._queue)

    def run(self, work: Callable[[], None]) -> None:
        """Do the work now if this iteration has time left, else at its turn."""
        if self._queue or self._is_full:
            self._queue.append(work)
        else:
            self._do(work)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._continue)

    def finish(self) -> None:
        """Do all queued work now."""
        while self._queue:
            self._do(self._queue.popleft())

    @property
    def _is_full(self) -> bool:
        return self._spent >= SECONDS or self._num_parts >= MAX_PARTS

    def _continue(self) -> None:
        """Do the queued work of the next iteration."""
        self._spent, self._num_parts = 0.0, 0
        while self._queue:
            self._do(self._queue.popleft())
            if self._is_full:
                break
        self._is_scheduled = bool(self._queue)
        if self._is_scheduled:
            self._loop.call_soon(self._continue)

    def _do(self, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        work()
        self._spent += time.perf_counter() - began
        self._num_parts += 1
