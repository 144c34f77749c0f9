"""Types of the arguments of public calls, checked where they come in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.config import SearchConfig
from regard.config.checks import shown


def check_texts(name: str, values: Any, kinds: tuple[type, ...] = (str,)) -> list[Any]:
    """The texts (or paths) of an argument as a list. TypeError for anything else."""
    expected = " or ".join(kind.__name__ for kind in kinds)
    if not isinstance(values, Iterable) or isinstance(values, bytes | bytearray):
        raise TypeError(_wrong(name, values, f"{expected}, or an iterable of them"))
    entries = list(values)
    for number, entry in enumerate(entries):
        if not isinstance(entry, kinds):
            raise TypeError(_wrong(f"{name}[{number}]", entry, expected))
    return entries


def check_pairs(pairs: Any) -> list[tuple[str, str]]:
    """Pairs of texts as a list. TypeError for anything else."""
    expected = "a pair of str: source and target"
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes | bytearray):
        raise TypeError(_wrong("pairs", pairs, "an iterable of pairs of str"))
    entries = list(pairs)
    for number, entry in enumerate(entries):
        is_pair = isinstance(entry, tuple | list) and len(entry) == 2
        if not is_pair or not all(isinstance(text, str) for text in entry):
            raise TypeError(_wrong(f"pairs[{number}]", entry, expected))
    return [(source, target) for source, target in entries]


def check_how(search: Any, num_best: Any) -> None:
    """TypeError unless these are a SearchConfig or None, and a whole number."""
    if search is not None and not isinstance(search, SearchConfig):
        raise TypeError(_wrong("search", search, "a regard.config.SearchConfig or None"))
    if not isinstance(num_best, int) or isinstance(num_best, bool):
        raise TypeError(_wrong("num_best", num_best, "a whole number"))


def check_path(name: str, value: Any) -> None:
    """TypeError unless it is a str or a Path."""
    if not isinstance(value, str | Path):
        raise TypeError(_wrong(name, value, "str or Path"))


def _wrong(name: str, value: object, expected: str) -> str:
    return f"{name} is {shown(value)} ({type(value).__name__}): expected {expected}"
