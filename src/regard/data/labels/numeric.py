"""Numbers written as text: series, and items with numbers of their own.

0.31,0 0.52,1 0.07,0             a series: positions with a space between, features with a comma
orange juice 1.20; bread 0.80    items: a name and its numbers, with a semicolon between
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import UserError
from regard.shapes import Float


@dataclass(frozen=True)
class Series:
    """Some positions, with as many numbers at each, and the piece of text that each was."""

    values: Float[np.ndarray, "position feature"]
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class NamedSeries:
    """The same, with a name at each position."""

    names: tuple[str, ...]
    series: Series


def parse_series(text: str, features: int | None = None) -> Series:
    """UserError where something is no number, or a position has not as many as `features` (without
    them, as the first)."""
    pieces = tuple(text.split())
    rows = [_numbers(piece.split(","), piece, text) for piece in pieces]
    return Series(_block(rows, pieces, text, features), pieces)


def parse_items(text: str, features: int | None = None) -> NamedSeries:
    """UserError where an item lacks its name or its numbers."""
    pieces = tuple(" ".join(piece.split()) for piece in text.split(";") if piece.strip())
    names, rows = [], []
    for piece in pieces:
        words = piece.split(" ")
        count = features or _count_numbers(words)
        name = " ".join(words[: len(words) - count])
        if not name or not count:
            raise UserError(
                f"{_place(piece, text)} is no item: expected a name and then numbers, as in "
                "'orange juice 1.20'"
            )
        names.append(name)
        rows.append(_numbers(words[len(words) - count :], piece, text))
    return NamedSeries(tuple(names), Series(_block(rows, pieces, text, features), pieces))


def _place(piece: str, text: str) -> str:
    """A piece in a message, after its text unless it is all of it."""
    shown = repr(piece[:60])
    return shown if piece == text.strip() else f"{text[:60]!r}: {shown}"


def _count_numbers(words: Sequence[str]) -> int:
    """How many words at the end are numbers."""
    count = 0
    for word in reversed(words):
        try:
            float(word)
        except ValueError:
            break
        count += 1
    return count


def _numbers(words: Sequence[str], piece: str, text: str) -> list[float]:
    try:
        found = [float(word) for word in words]
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise UserError(f"{_place(piece, text)} holds something other than finite numbers")
    return found


def _block(
    rows: list[list[float]], pieces: Sequence[str], text: str, features: int | None
) -> Float[np.ndarray, "position feature"]:
    if not rows:
        raise UserError(f"{text[:60]!r} holds no numbers: expected at least one")
    wanted = features or len(rows[0])
    for row, piece in zip(rows, pieces, strict=True):
        if len(row) != wanted:
            raise UserError(
                f"{_place(piece, text)} has {len(row)} numbers, but expected "
                f"{wanted}, as {'the model was trained with' if features else 'the first has'}"
            )
    return np.array(rows, dtype=np.float32)
