"""Numbers with decimal commas, such as 14,03 and 1.234,50."""

from __future__ import annotations

import re
from collections.abc import Iterable

COMMA = re.compile(r"[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+([eE][-+]?\d+)?")
AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
"""Number whose comma may divide thousands."""
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
"""Number whose points may divide thousands."""
POINT = re.compile(
    r"[-+]?(\d*\.\d+|\d+\.|\d{1,3}(,\d{3})+\.\d*|\d{1,3}(,\d{3}){2,})([eE][-+]?\d+)?"
)
"""Number with a decimal point, or with more than one comma."""


def is_comma_number(text: str) -> bool:
    """Return whether a text is a number if its comma is a decimal comma."""
    return COMMA.fullmatch(text) is not None


def has_decimal_point(text: str) -> bool:
    """Return whether a text is a number with a decimal point, and not with points that may divide
    thousands."""
    return POINT.fullmatch(text) is not None and GROUPED.fullmatch(text) is None


def has_decimal_commas(texts: Iterable[str]) -> bool:
    """Return whether the numbers in these texts have decimal commas: one of them has a comma that
    cannot divide thousands, and none has a decimal point."""
    words = [word for text in texts for word in text.split()]
    is_clear = any(is_comma_number(word) and AMBIGUOUS.fullmatch(word) is None for word in words)
    return is_clear and not any(map(has_decimal_point, words))


def with_points(text: str) -> str:
    """Return a text whose numbers have decimal commas with decimal points instead, and without
    points between thousands."""
    return " ".join(map(_with_point, text.split()))


def _with_point(word: str) -> str:
    if is_comma_number(word) or GROUPED.fullmatch(word):
        return word.replace(".", "").replace(",", ".")
    return word
