"""Pairs that are drawn until their sources differ."""

from __future__ import annotations

import random
from collections.abc import Callable

from regard.data.examples import Pair
from regard.errors import UserError

Draw = Callable[[random.Random], tuple[str, str]]
"""Function that draws a source and a target."""


def distinct_pairs(count: int, seed: int, noun: str, draw: Draw) -> tuple[Pair, ...]:
    """Return `count` pairs with different sources. UserError, with the noun of the pairs, for a
    count below 1."""
    if count < 1:
        raise UserError(f"{count} {noun}: expected 1 or more")
    drawing = random.Random(seed)
    pairs: dict[str, Pair] = {}
    while len(pairs) < count:
        source, target = draw(drawing)
        pairs.setdefault(source, Pair(source, target, len(pairs) + 1))
    return tuple(pairs.values())
