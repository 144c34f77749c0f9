"""Baskets: products with prices, and the mean price of the drinks among them. What has to be looked
at is known beforehand: every drink alike, and nothing else."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.errors import UserError

DRINKS = (
    *("water", "cola", "orange juice", "lemonade", "milk", "coffee", "green tea", "beer"),
    *("cider", "cocoa"),
)
OTHERS = (
    *("bread", "butter", "cheese", "rice", "apples", "pears", "tomatoes", "onions", "honey"),
    *("soap", "candles", "matches", "batteries", "flour", "salt", "eggs", "noodles", "beans"),
    *("mustard", "yeast"),
)
FEWEST, MOST = 3, 8
LOWEST, HIGHEST = 50, 999
"""Prices in cents."""


def baskets(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Different baskets of three to eight products, at least one of them a drink."""
    if count < 1:
        raise UserError(f"{count} baskets were asked for: expected 1 or more")
    drawing = random.Random(seed)
    found: dict[str, Pair] = {}
    while len(found) < count:
        size = drawing.randint(FEWEST, MOST)
        num_drinks = drawing.randint(1, size - 1)
        names = drawing.sample(DRINKS, num_drinks) + drawing.sample(OTHERS, size - num_drinks)
        drawing.shuffle(names)
        cents = {name: drawing.randint(LOWEST, HIGHEST) for name in names}
        source = "; ".join(f"{name} {price / 100:.2f}" for name, price in cents.items())
        mean = sum(price for name, price in cents.items() if name in DRINKS) / num_drinks / 100
        found.setdefault(source, Pair(source, f"{mean:.6g}", len(found) + 1))
    return tuple(found.values())
