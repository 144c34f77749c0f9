"""Searches that stop between two steps when nobody waits for their results any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class UnwantedError(Exception):
    """Nobody waits for the results of a search."""


def _always() -> bool:
    return True


_is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=_always)


@contextmanager
def while_wanted(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Let `check_wanted` in this block call this function."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def check_wanted() -> None:
    """Raise an UnwantedError if nobody waits for the results of the present block. Searches call
    this before each step, and models before each batch."""
    if not _is_wanted.get()():
        raise UnwantedError
