"""Series with one position marked, and the value that stood there. What has to be looked at is
known beforehand."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.errors import UserError

FEWEST, MOST = 5, 20


def marked_series(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Different series of five to twenty positions, each a value from -1 to 1 and a mark, which is
    1 at one of them."""
    if count < 1:
        raise UserError(f"{count} series were asked for: expected 1 or more")
    drawing = random.Random(seed)
    found: dict[str, Pair] = {}
    while len(found) < count:
        values = [drawing.randint(-100, 100) / 100 for _ in range(drawing.randint(FEWEST, MOST))]
        place = drawing.randrange(len(values))
        source = " ".join(f"{value:.2f},{int(n == place)}" for n, value in enumerate(values))
        found.setdefault(source, Pair(source, f"{values[place]:.2f}", len(found) + 1))
    return tuple(found.values())
