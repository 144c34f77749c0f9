"""Series of readings of a day, and the highest of each. The correct attention is known: all weight
is on the highest reading."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.errors import UserError

MIN_LENGTH, MAX_LENGTH = 3, 9
MIN_READING, MAX_READING = -150, 350
"""Readings in tenths of a degree."""


def readings(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct series of three to nine readings with the highest. UserError for a count
    below 1."""
    if count < 1:
        raise UserError(f"{count} series: expected 1 or more")
    drawing = random.Random(seed)
    pairs: dict[str, Pair] = {}
    while len(pairs) < count:
        length = drawing.randint(MIN_LENGTH, MAX_LENGTH)
        values = [drawing.randint(MIN_READING, MAX_READING) / 10 for _ in range(length)]
        source = " ".join(f"{value:.1f}" for value in values)
        pairs.setdefault(source, Pair(source, f"{max(values):.1f}", len(pairs) + 1))
    return tuple(pairs.values())
