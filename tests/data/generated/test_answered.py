"""Baskets and marked series: every answer can be worked out from its source."""

from __future__ import annotations

import pytest

from regard.data.generated import generate
from regard.data.generated.drinks import DRINKS, OTHERS
from regard.data.labels.numeric import parse_items, parse_series
from regard.errors import UserError


def test_the_target_of_a_basket_is_the_mean_price_of_its_drinks():
    for pair in generate("drinks", 300, seed=1):
        result = parse_items(pair.source, features=1)
        assert set(result.names) <= {*DRINKS, *OTHERS}
        prices = zip(result.names, result.series.values[:, 0].tolist(), strict=True)
        drinks = [price for name, price in prices if name in DRINKS]
        assert len(drinks) < len(result.names)
        assert float(pair.target) == pytest.approx(sum(drinks) / len(drinks), abs=1e-4)


def test_totals_are_the_sums_of_the_prices_of_equal_baskets():
    for mean, total in zip(
        generate("drinks", 300, 1), generate("drinks-total", 300, 1), strict=True
    ):
        assert total.source == mean.source
        names = parse_items(total.source, features=1).names
        num_drinks = sum(name in DRINKS for name in names)
        assert float(total.target) == pytest.approx(num_drinks * float(mean.target), abs=1e-3)


def test_the_target_of_a_series_is_the_marked_value():
    places = set()
    for pair in generate("series", 300, seed=1):
        values = parse_series(pair.source).values
        (place,) = [n for n, mark in enumerate(values[:, 1].tolist()) if mark]
        places.add(place)
        assert float(pair.target) == pytest.approx(values[place, 0])
    assert len(places) > 15


@pytest.mark.parametrize("name", ["drinks", "drinks-total", "series"])
def test_a_seed_repeats_examples_and_examples_are_distinct(name):
    one, again, other = (generate(name, 50, seed) for seed in (1, 1, 2))
    assert one == again != other
    assert len({pair.source for pair in one}) == 50
    with pytest.raises(UserError, match="expected 1 or more"):
        generate(name, 0, 1)
