"""Prefetching of batches in a thread, so that a GPU does not wait for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
SECONDS = 0.1
"""Seconds between attempts to add to a full queue, which also check for the end of training."""


@dataclass(frozen=True)
class _End:
    """End of the items: the error of their iterator, or None."""

    error: BaseException | None


@contextmanager
def prefetched(items: Iterator[Item], ahead: int) -> Iterator[Iterator[Item]]:
    """Yield the items in their order; a thread takes up to `ahead` of them in advance. An error of
    the iterator is raised in place of its item. The thread ends with the block."""
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
