"""Numbers with decimal commas."""

from __future__ import annotations

import pytest

from regard.data.files.decimals import has_decimal_commas, with_points


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["14,03", "7"], True),
        (["0,320"], True),
        (["1.234,50", "1,234"], True),
        (["1,5 2,5", "x"], True),
        (["1,234", "12,500"], False),  # commas may divide thousands
        (["14,03", "14.03"], False),
        (["1,5", "1,234,567"], False),
        (["0.1,0 0.52,1"], False),
        (["14.03", "7"], False),
    ],
)
def test_a_clear_comma_settles_the_column(texts, expected):
    assert has_decimal_commas(texts) == expected


def test_numbers_get_points():
    assert with_points("14,03 1.234,50 -0,5 1,234 1.234 7 x,y") == (
        "14.03 1234.50 -0.5 1.234 1234 7 x,y"
    )
