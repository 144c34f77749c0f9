"""Numbers with a unit or a currency sign, such as 3,5 kg, 12 % and $3.20."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

NUMBER = r"(?P<number>[\d.,]*\d)"
SIGN = r"(?P<sign>[-+]?)"
AFTER = re.compile(rf"{SIGN}{NUMBER}\s?(?P<unit>[^\d\s]{{1,10}})")
BEFORE = re.compile(rf"{SIGN}(?P<unit>[^\d\s.,+-]{{1,3}})\s?{NUMBER}")
SYMBOLS = "%‰°²³µ/"
"""Characters of units, apart from letters and currency signs."""


def split_unit(text: str) -> tuple[str, str] | None:
    """Return a number and its unit; None for another text. A unit before the number has a currency
    sign. After the number, it has letters, currency signs and `SYMBOLS`."""
    match = AFTER.fullmatch(text)
    if match is not None and all(map(_is_in_units, match["unit"])):
        return match["sign"] + match["number"], match["unit"]
    match = BEFORE.fullmatch(text)
    if match is not None and any(map(_is_currency, match["unit"])):
        return match["sign"] + match["number"], match["unit"]
    return None


def unit_of(texts: Iterable[str]) -> str:
    """Return the unit that all these texts have, apart from blank ones; an empty one if they have
    none, or several."""
    unit = ""
    for text in filter(None, texts):
        part = split_unit(text)
        if part is None or unit not in ("", part[1]):
            return ""
        unit = part[1]
    return unit


def without_units(texts: Sequence[str]) -> list[str]:
    """Return the texts without their unit if all of them have the same one, apart from blank
    texts."""
    if not unit_of(texts):
        return list(texts)
    parts = map(split_unit, texts)
    return [text if part is None else part[0] for text, part in zip(texts, parts, strict=True)]


def _is_in_units(letter: str) -> bool:
    return letter.isalpha() or _is_currency(letter) or letter in SYMBOLS


def _is_currency(letter: str) -> bool:
    return unicodedata.category(letter) == "Sc"
