"""Series with one marked position, and the value at that position. The correct attention is known:
all weight is on the marked position."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.errors import UserError

MIN_LENGTH, MAX_LENGTH = 5, 20


def marked_series(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct series of five to twenty positions. A position has a value from -1 to 1 and
    a mark, which is 1 at one position and 0 elsewhere. UserError for a count below 1."""
    if count < 1:
        raise UserError(f"{count} series: expected 1 or more")
    drawing = random.Random(seed)
    pairs: dict[str, Pair] = {}
    while len(pairs) < count:
        length = drawing.randint(MIN_LENGTH, MAX_LENGTH)
        values = [drawing.randint(-100, 100) / 100 for _ in range(length)]
        marked = drawing.randrange(len(values))
        source = " ".join(f"{value:.2f},{int(n == marked)}" for n, value in enumerate(values))
        pairs.setdefault(source, Pair(source, f"{values[marked]:.2f}", len(pairs) + 1))
    return tuple(pairs.values())
