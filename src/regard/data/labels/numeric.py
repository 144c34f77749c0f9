"""Parsers of numbers in text: series, and items with numbers.

0.31,0 0.52,1 0.07,0             series: spaces between positions, commas between features
orange juice 1.20; bread 0.80    items: names with their numbers, semicolons between items
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.recognition.decimals import split_plain
from regard.errors import UserError
from regard.shapes import Float

LARGEST = 1e18
"""Largest absolute value of a number. Models compute with squares of numbers, in float32."""


@dataclass(frozen=True)
class Series:
    """Numbers at each position, and the text of each position."""

    values: Float[np.ndarray, "position feature"]
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class NamedSeries:
    """Series with a name at each position."""

    names: tuple[str, ...]
    series: Series


def parse_series(text: str, features: int | None = None) -> Series:
    """Parse a series. UserError if a part is not a finite number or is above `LARGEST`, or if a
    position does not have `features` numbers (by default as many as the first position)."""
    pieces = tuple(text.split())
    rows = [_numbers(piece.split(","), piece, text) for piece in pieces]
    return Series(_block(rows, pieces, text, features), pieces)


def parse_items(text: str, features: int | None = None) -> NamedSeries:
    """Parse items, whose numbers may have decimal commas and one unit. UserError if an item has no
    name, no numbers, not `features` numbers, or another unit, and for a number above `LARGEST`."""
    pieces = tuple(" ".join(piece.split()) for piece in text.split(";") if piece.strip())
    names, rows, units = [], [], set[str]()
    for piece in pieces:
        words = _plain_words(piece.split(" "), units)
        count = features or _count_numbers(words)
        name = " ".join(words[: len(words) - count])
        if not name or not count:
            raise UserError(
                f"{_place(piece, text)} is not an item: expected a name and numbers, such as "
                "'orange juice 1.20'"
            )
        names.append(name)
        rows.append(_numbers(words[len(words) - count :], piece, text))
    if len(units) > 1:
        raise UserError(f"{text[:60]!r} has several units: {', '.join(sorted(units))}")
    return NamedSeries(tuple(names), Series(_block(rows, pieces, text, features), pieces))


def _place(piece: str, text: str) -> str:
    """Return a piece for a message, with its text if the text has more pieces."""
    shown = repr(piece[:60])
    return shown if piece == text.strip() else f"{text[:60]!r}: {shown}"


def _plain_words(words: list[str], units: set[str]) -> list[str]:
    """Return the words of an item with its last numbers as Python writes them. Their units are
    added to `units`."""
    if len(words) > 2 and (joined := split_plain(" ".join(words[-2:]))) and joined[1]:
        words = [*words[:-2], " ".join(words[-2:])]
    for place in range(len(words) - 1, 0, -1):
        number = split_plain(words[place])
        if number is None:
            break
        words[place], unit = number
        units |= {unit} - {""}
    return words


def _count_numbers(words: Sequence[str]) -> int:
    """Return the number of numbers at the end of the words."""
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
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise UserError(f"{_place(piece, text)}: expected finite numbers")
    if max(map(abs, numbers), default=0.0) > LARGEST:
        raise UserError(
            f"{_place(piece, text)}: expected numbers from {-LARGEST:g} to {LARGEST:g}; divide "
            "all numbers of the data by the same number"
        )
    return numbers


def _block(
    rows: list[list[float]], pieces: Sequence[str], text: str, features: int | None
) -> Float[np.ndarray, "position feature"]:
    if not rows:
        raise UserError(f"{text[:60]!r} has no numbers: expected at least 1")
    count = features or len(rows[0])
    for row, piece in zip(rows, pieces, strict=True):
        if len(row) != count:
            raise UserError(
                f"{_place(piece, text)} has {len(row)} numbers: expected {count}, as "
                f"{'in the training data' if features else 'at the first position'}"
            )
    return np.array(rows, dtype=np.float32)
