"""Batches made in advance, so that a GPU does not wait for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
SECONDS = 0.1
"""Time after which a full queue is tried again, and the end of training is noticed."""


@dataclass(frozen=True)
class _End:
    """Why no more items come: an error, or None at the end."""

    error: BaseException | None


@contextmanager
def prefetched(items: Iterator[Item], ahead: int) -> Iterator[Iterator[Item]]:
    """Give the same items in the same order, taken by a thread up to `ahead` of them in advance.
    An error of the iterator is raised where its item would be. The thread ends with the block."""
    ready: queue.Queue[Item | _End] = queue.Queue(ahead)
    ended = threading.Event()

    def put(item: Item | _End) -> None:
        while not ended.is_set():
            try:
                return ready.put(item, timeout=SECONDS)
            except queue.Full:
                continue

    def fill() -> None:
        error = None
        try:
            for item in items:
                put(item)
                if ended.is_set():
                    return
        except BaseException as raised:  # noqa: BLE001 (raised again by the thread that waits)
            error = raised
        put(_End(error))

    def taken() -> Iterator[Item]:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error

    thread = threading.Thread(target=fill, name="regard-batches", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        ended.set()
        thread.join()
