"""Telling how far work has come, for whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
OnProgress = Callable[[str, int, int | None], None]
"""Is told what is being done, how many pairs are done, and of how many where that is known."""

EVERY = 8192


def with_progress(
    items: Iterable[Item], label: str, total: int | None, on_progress: OnProgress | None
) -> Iterator[Item]:
    """The items as they come; now and then `on_progress` is told how many there were."""
    for number, item in enumerate(items, start=1):
        yield item
        if on_progress and number % EVERY == 0:
            on_progress(label, number, total)
