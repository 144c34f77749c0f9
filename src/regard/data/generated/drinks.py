"""Baskets of products with prices, and the mean or the total price of the drinks in them.

The correct attention is known: none on other products, and equal weights on all drinks. For the
total, these weights are one."""

from __future__ import annotations

import random
from functools import partial

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


def baskets(count: int, seed: int = 1, *, total: bool = False) -> tuple[Pair, ...]:
    """Generate distinct baskets of three to eight products with at least one drink, each with the
    mean price of its drinks, or with their total. UserError for a count below 1."""
    return distinct_pairs(count, seed, "baskets", partial(_draw, total=total))


def _draw(drawing: random.Random, *, total: bool) -> tuple[str, str]:
    """Draw a basket, and the mean or total price of its drinks."""
    size = drawing.randint(MIN_PRODUCTS, MAX_PRODUCTS)
    num_drinks = drawing.randint(1, size - 1)
    names = drawing.sample(DRINKS, num_drinks) + drawing.sample(OTHERS, size - num_drinks)
    drawing.shuffle(names)
    cents = {name: drawing.randint(MIN_PRICE, MAX_PRICE) for name in names}
    source = "; ".join(f"{name} {price / 100:.2f}" for name, price in cents.items())
    price = sum(price for name, price in cents.items() if name in DRINKS)
    return source, f"{(price if total else price / num_drinks) / 100:.6g}"
