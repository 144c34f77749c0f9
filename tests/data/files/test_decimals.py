"""Numbers with decimal commas."""

from __future__ import annotations

import pytest

from regard.data.files.decimals import has_decimal_commas, has_thousands, plain_numbers, with_points


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


@pytest.mark.parametrize(
    ("texts", "may_have_commas", "expected"),
    [
        (["1,693.06", "12"], True, True),
        (["1,693", "12.50"], True, True),
        (["1,234,567", "12"], True, True),
        (["1,693", "12"], True, False),  # may be a decimal comma
        (["1,693", "12"], False, True),
        (["1,693.06", "1,5"], True, False),
        (["1,5", "12"], False, False),
        (["0,320", "12.5"], True, False),
        (["12.50", "x"], True, False),
    ],
)
def test_commas_that_divide_thousands(texts, may_have_commas, expected):
    assert has_thousands(texts, may_have_commas=may_have_commas) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1,693.06", "-2,000", "99", ""], ["1693.06", "-2000", "99", ""]),
        (["1.693,06", "2.000", "99", ""], ["1693.06", "2000", "99", ""]),
        (["1,693 2.5", "n/a"], ["1693 2.5", "n/a"]),
        (["1.5", "7"], ["1.5", "7"]),
    ],
)
def test_numbers_without_signs_between_thousands(texts, expected):
    assert plain_numbers(texts, may_have_commas=True) == expected
