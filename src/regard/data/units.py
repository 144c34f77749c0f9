"""Numbers in cells with their sign and unit, such as 3,5 kg, -12 %, $3.20, EUR 5 and (12.50)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from regard.errors import UserError

MAX_LENGTH = 60
"""Largest number of characters of a number with its unit."""
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}\N{FIGURE SPACE}"
GROUP_SPACE = "\N{NO-BREAK SPACE}"
"""Space between thousands that divides no words."""
MINUS_SIGNS = "\N{MINUS SIGN}\N{EN DASH}\N{EM DASH}\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{FIGURE DASH}"
APOSTROPHES = "\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}\N{PRIME}"
DIRECTION_MARKS = "\N{LEFT-TO-RIGHT MARK}\N{RIGHT-TO-LEFT MARK}\N{ARABIC LETTER MARK}"
SIGNS = str.maketrans(
    {
        **dict.fromkeys(SPACES, GROUP_SPACE),
        **dict.fromkeys(MINUS_SIGNS, "-"),
        **dict.fromkeys(APOSTROPHES, "'"),
        **dict.fromkeys(DIRECTION_MARKS, ""),
        "\N{ARABIC DECIMAL SEPARATOR}": ",",
        "\N{ARABIC THOUSANDS SEPARATOR}": "'",
        "\N{ARABIC PERCENT SIGN}": "%",
    }
)
"""Signs of numbers in other scripts and types, as ASCII."""
BODY = r"(?P<body>[.,]?\d(?:[\d.,'\s]*\d)?[.,]?(?:[eE][-+]?\d+)?)"
AFTER = re.compile(
    rf"(?P<sign>[-+]?)\s?{BODY}(?:(?P<space>\s?)(?P<unit>[^\d\s.,'()+-][^\d\s]{{0,9}}))?"
)
BEFORE = re.compile(rf"(?P<sign>[-+]?)\s?(?P<unit>[^\d\s,+-]{{1,4}}?)\s?(?P<inner>[-+]?)\s?{BODY}")
IN_BRACKETS = re.compile(r"([^\d(),+-]{0,5})\(([^()-]+)\)([^\d()]{0,10})")
"""Negative amount in accounts, such as (12.50) and $(12.50)."""
TRAILING_MINUS = re.compile(r"([^-+]*\d)-(\s?[^\w\s-]{0,3})")
NO_CENTS = re.compile(r"(?<=\d)[.,]-{1,2}(?=\D*$)")
"""Dash in place of cents, such as 12,- and 12.--."""
SYMBOLS = "%‰°²³µ/"
"""Characters of units, apart from letters and currency signs."""
CURRENCY_NAMES = (
    "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KRW "
    "MAD MXN MYR NGN NOK NZD PEN PHP PKR PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR "
    "Fr. Fr SFr. Rs. Rs kr kr. Kč zł RM Rp"
)
CURRENCIES = frozenset(CURRENCY_NAMES.split())
"""Currencies that are written before a number, apart from those with a sign."""
SAME_UNITS = {
    **dict.fromkeys(("EUR", "Euro", "euro", "euros"), "€"),
    **dict.fromkeys(("USD", "US$"), "$"),
    **dict.fromkeys(("Fr.", "Fr", "SFr."), "CHF"),
    **{"GBP": "£", "JPY": "¥", "INR": "₹", "Rs": "₹", "Rs.": "₹", "PLN": "zł", "CZK": "Kč"},
    **{"kr.": "kr", "ILS": "₪", "KRW": "₩", "percent": "%"},
}
"""Other names of units, with the name that stands for both."""
DIGIT = re.compile(r"\d")


def compare_units(
    place: str, units: Sequence[str] | None, expected: Sequence[str] | None
) -> tuple[str, ...]:
    """Return a sentence for each target column whose numbers have no unit, unlike those of the
    training, or only they have one. UserError for different units. None: not known. `place`: name
    of the file."""
    sentences = list[str]()
    for unit, training in zip(units or (), expected or (), strict=False):
        if unit and training and unit != training:
            raise UserError(
                f"{place}: the target numbers are in {unit}, but those of the training are in "
                f"{training}: convert them to {training}"
            )
        if unit != training:
            forms = [f"in {name}" if name else "without a unit" for name in (unit, training)]
            sentences.append(
                f"{place}: the target numbers are {forms[0]}, and those of the training "
                f"{forms[1]}: they are compared without conversion"
            )
    return tuple(sentences)


class Number(NamedTuple):
    """Number in a cell."""

    is_negative: bool
    body: str
    """Digits with all marks between them."""
    unit: str = ""
    is_apart: bool = True
    """Whether the unit is no word that follows the digits without a space, as in 12b."""


def split_number(text: str) -> Number | None:
    """Return the number that a cell has; None for another text. A unit before the number is a
    currency. After the number, it has letters, currency signs and `SYMBOLS`."""
    if len(text) > MAX_LENGTH or DIGIT.search(text) is None:
        return None
    text = _in_ascii(text.strip())
    is_negative = False
    if "(" in text and (match := IN_BRACKETS.fullmatch(text)):
        is_negative, text = True, "".join(match.groups())
    if "-" in text:
        text = NO_CENTS.sub("", text)
        if match := TRAILING_MINUS.fullmatch(text):
            is_negative, text = True, "".join(match.groups())
    match = AFTER.fullmatch(text)
    if match is not None and all(map(_is_in_units, (match["unit"] or "").removesuffix("."))):
        unit = match["unit"] or ""
        is_apart = bool(match["space"]) or not unit[:1].isalpha()
        is_negative = is_negative != (match["sign"] == "-")
        return Number(is_negative, match["body"], SAME_UNITS.get(unit, unit), is_apart)
    match = BEFORE.fullmatch(text)
    if match is not None and is_currency(match["unit"]):
        is_negative = is_negative != ("-" in (match["sign"], match["inner"]))
        return Number(is_negative, match["body"], SAME_UNITS.get(match["unit"], match["unit"]))
    return None


def _in_ascii(text: str) -> str:
    """Return a text with the digits and signs of numbers in ASCII."""
    if text.isascii():
        return text
    letters = (
        str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in text
    )
    return "".join(letters).translate(SIGNS).strip()


def _is_in_units(letter: str) -> bool:
    return letter.isalpha() or _is_sign(letter) or letter in SYMBOLS


def is_currency(unit: str) -> bool:
    """Return whether a unit is a currency, by its sign or its usual abbreviation."""
    return unit in CURRENCIES or any(map(_is_sign, unit))


def _is_sign(letter: str) -> bool:
    return unicodedata.category(letter) == "Sc"
