"""Numbers with units."""

from __future__ import annotations

import pytest

from regard.data.units import split_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2,50 €", ("2,50", "€")),
        ("2,50\N{NO-BREAK SPACE}€", ("2,50", "€")),
        ("$3.20", ("3.20", "$")),
        ("US$ 3", ("3", "$")),
        ("EUR 3", ("3", "€")),
        ("R$ 3", ("3", "R$")),
        ("12 %", ("12", "%")),
        ("3,5kg", ("3,5", "kg")),
        ("7 °C", ("7", "°C")),
        ("9 m/s²", ("9", "m/s²")),
        ("5 Stück", ("5", "Stück")),
        ("5 руб.", ("5", "руб.")),
        ("12", ("12", "")),
        ("1e5", ("1e5", "")),
        (".5", (".5", "")),
        ("A123", None),
        ("R5", None),
        ("room 12", None),
        ("12-14", None),
        ("3-star", None),
        ("3 red apples", None),
        ("(a) 5", None),
        ("", None),
        ("5" * 100, None),
    ],
)
def test_a_number_has_a_unit_after_it_or_a_currency_before_it(text, expected):
    number = split_number(text)
    assert (number and (number.body, number.unit)) == expected


@pytest.mark.parametrize(
    "text", ["-$3.20", "$-3.20", "(3.20)", "3.20-", "−3.20", "-7 °C", "3,20- €", "\u200e-5"]
)
def test_signs_of_negative_numbers(text):
    number = split_number(text)
    assert number is not None
    assert number.is_negative
