"""Series of readings of a day, and the highest of each. The correct attention is known: all weight
is on the highest reading."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.data.generated.distinct import distinct_pairs

MIN_LENGTH, MAX_LENGTH = 3, 9
MIN_READING, MAX_READING = -150, 350
"""Readings in tenths of a degree."""


def readings(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct series of three to nine readings with the highest. UserError for a count
    below 1."""
    return distinct_pairs(count, seed, "series", _draw)


def _draw(drawing: random.Random) -> tuple[str, str]:
    """Draw a series of readings, and the highest."""
    length = drawing.randint(MIN_LENGTH, MAX_LENGTH)
    values = [drawing.randint(MIN_READING, MAX_READING) / 10 for _ in range(length)]
    source = " ".join(f"{value:.1f}" for value in values)
    return source, f"{max(values):.1f}"
