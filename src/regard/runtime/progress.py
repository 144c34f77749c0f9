"""Progress callbacks of long operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
OnProgress = Callable[[str, int, int | None], None]
"""Callback with the label of an operation, the number of finished pairs, and their total or
None."""

FIRST_RUN = " (first run only)"
"""End of the label of a pass over large data, whose result the cache keeps for later runs."""
EVERY = 8192
"""Number of pairs between calls."""


def with_progress(
    items: Iterable[Item], label: str, total: int | None, on_progress: OnProgress | None
) -> Iterator[Item]:
    """Yield the items, and call `on_progress` after every `EVERY` items. The total may be an
    estimate."""
    for number, item in enumerate(items, start=1):
        yield item
        if on_progress and number % EVERY == 0:
            on_progress(label, number, None if total is None else max(number, total))
