"""Numbers with decimal commas, such as 14,03 and 1.234,50, or with commas between thousands, such
as 1,234.50."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

COMMA = re.compile(r"[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+([eE][-+]?\d+)?")
AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
"""Number whose comma may divide thousands."""
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
"""Number whose points may divide thousands."""
POINT = re.compile(
    r"[-+]?(\d*\.\d+|\d+\.|\d{1,3}(,\d{3})+\.\d*|\d{1,3}(,\d{3}){2,})([eE][-+]?\d+)?"
)
"""Number with a decimal point, or with more than one comma."""
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
"""Number whose commas may divide thousands, perhaps with a decimal point."""


def is_comma_number(text: str) -> bool:
    """Return whether a text is a number if its comma is a decimal comma."""
    return COMMA.fullmatch(text) is not None


def has_commas(text: str) -> bool:
    """Return whether a text is a number with a decimal comma, or with commas between thousands."""
    return is_comma_number(text) or THOUSANDS.fullmatch(text) is not None


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


def plain_numbers(texts: Sequence[str], *, may_have_commas: bool) -> list[str]:
    """Return texts whose numbers have decimal points and no signs between thousands.
    `may_have_commas`: numbers may have decimal commas."""
    if may_have_commas and has_decimal_commas(texts):
        return list(map(with_points, texts))
    if has_thousands(texts, may_have_commas=may_have_commas):
        return list(map(without_thousands, texts))
    return list(texts)


def has_thousands(texts: Iterable[str], *, may_have_commas: bool) -> bool:
    """Return whether the commas of the numbers in these texts divide thousands: all commas can, and
    a number has a decimal point or several commas, or numbers have no decimal commas."""
    words = [word for text in texts if "," in text or "." in text for word in text.split()]
    commas = [word for word in words if "," in word and has_commas(word)]
    if not commas or not all(map(THOUSANDS.fullmatch, commas)):
        return False
    return not may_have_commas or any(map(has_decimal_point, words))


def without_thousands(text: str) -> str:
    """Return a text without the commas between thousands of its numbers."""
    words = text.split()
    return " ".join(word.replace(",", "") if THOUSANDS.fullmatch(word) else word for word in words)
