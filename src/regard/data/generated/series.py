"""Series with one marked position, and the value at that position. The correct attention is known:
all weight is on the marked position."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.data.generated.distinct import distinct_pairs

MIN_LENGTH, MAX_LENGTH = 5, 20


def marked_series(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct series of five to twenty positions. A position has a value from -1 to 1 and
    a mark, which is 1 at one position and 0 elsewhere. UserError for a count below 1."""
    return distinct_pairs(count, seed, "series", _draw)


def _draw(drawing: random.Random) -> tuple[str, str]:
    """Draw a series, and the value at its mark."""
    length = drawing.randint(MIN_LENGTH, MAX_LENGTH)
    values = [drawing.randint(-100, 100) / 100 for _ in range(length)]
    marked = drawing.randrange(len(values))
    source = " ".join(f"{value:.2f},{int(n == marked)}" for n, value in enumerate(values))
    return source, f"{values[marked]:.2f}"
