"""Baskets of products with prices, and the mean price of the drinks in them. The correct attention
is known: equal weights on all drinks, and none on other products."""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.data.generated.distinct import distinct_pairs

DRINKS = (
    *("water", "cola", "orange juice", "lemonade", "milk", "coffee", "green tea", "beer"),
    *("cider", "cocoa"),
)
OTHERS = (
    *("bread", "butter", "cheese", "rice", "apples", "pears", "tomatoes", "onions", "honey"),
    *("soap", "candles", "matches", "batteries", "flour", "salt", "eggs", "noodles", "beans"),
    *("mustard", "yeast"),
)
MIN_PRODUCTS, MAX_PRODUCTS = 3, 8
MIN_PRICE, MAX_PRICE = 50, 999
"""Prices in cents."""


def baskets(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct baskets of three to eight products with at least one drink. UserError for a
    count below 1."""
    return distinct_pairs(count, seed, "baskets", _draw)


def _draw(drawing: random.Random) -> tuple[str, str]:
    """Draw a basket, and the mean price of its drinks."""
    size = drawing.randint(MIN_PRODUCTS, MAX_PRODUCTS)
    num_drinks = drawing.randint(1, size - 1)
    names = drawing.sample(DRINKS, num_drinks) + drawing.sample(OTHERS, size - num_drinks)
    drawing.shuffle(names)
    cents = {name: drawing.randint(MIN_PRICE, MAX_PRICE) for name in names}
    source = "; ".join(f"{name} {price / 100:.2f}" for name, price in cents.items())
    mean = sum(price for name, price in cents.items() if name in DRINKS) / num_drinks / 100
    return source, f"{mean:.6g}"
