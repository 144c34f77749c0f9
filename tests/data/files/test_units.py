"""Numbers with units."""

from __future__ import annotations

import pytest

from regard.data.files.units import split_unit, unit_of, without_units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2,50 €", ("2,50", "€")),
        ("2,50\N{NO-BREAK SPACE}€", ("2,50", "€")),
        ("$3.20", ("3.20", "$")),
        ("-$3.20", ("-3.20", "$")),
        ("US$ 3", ("3", "US$")),
        ("12 %", ("12", "%")),
        ("3,5kg", ("3,5", "kg")),
        ("-7 °C", ("-7", "°C")),
        ("9 m/s²", ("9", "m/s²")),
        ("5 Stück", ("5", "Stück")),
        ("A123", None),
        ("room 12", None),
        ("12", None),
        ("1e5", None),
        ("12-14", None),
        ("3 red apples", None),
        ("", None),
    ],
)
def test_a_number_has_a_unit_after_it_or_a_currency_sign_before_it(text, expected):
    assert split_unit(text) == expected


def test_a_column_has_one_unit():
    assert unit_of(["3 kg", "", "4 kg"]) == "kg"
    assert without_units(["3 kg", "", "4,5 kg"]) == ["3", "", "4,5"]
    for texts in (["3 kg", "4 g"], ["3 kg", "4"], ["3", "4"], ["3 kg", "four kg"], [""]):
        assert (unit_of(texts), without_units(texts)) == ("", texts)
