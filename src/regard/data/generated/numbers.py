"""Numbers in English and German words. German puts units before tens and writes one word.

423 is four hundred twenty-three in English and vierhundertdreiundzwanzig in German.
"""

from __future__ import annotations

import random
from itertools import pairwise

from regard.data.examples import Pair
from regard.errors import UserError

LARGEST = 999_999


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_ENGLISH_SMALL = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_ENGLISH_TENS = _listed("twenty thirty forty fifty sixty seventy eighty ninety")

_GERMAN_SMALL = _listed(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
_GERMAN_TENS = _listed("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")


def english(number: int) -> str:
    """Return a number from 0 to 999,999 in American words (without "and"). ValueError for any other
    number."""
    _check(number)
    if number < 20:
        return _ENGLISH_SMALL[number]
    if number < 100:
        tens, units = divmod(number, 10)
        word = _ENGLISH_TENS[tens - 2]
        return f"{word}-{_ENGLISH_SMALL[units]}" if units else word
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, size)
    return f"{english(many)} {name}" + (f" {english(rest)}" if rest else "")


def german(number: int) -> str:
    """Return a number from 0 to 999,999 as one German word (einhundert and eintausend, always with
    ein). ValueError for any other number."""
    _check(number)
    if number < 20:
        return _GERMAN_SMALL[number]
    if number < 100:
        tens, units = divmod(number, 10)
        word = _GERMAN_TENS[tens - 2]
        return f"{_before(units)}und{word}" if units else word
    size, name = (1000, "tausend") if number >= 1000 else (100, "hundert")
    many, rest = divmod(number, size)
    return f"{_before(many)}{name}" + (german(rest) if rest else "")


def _before(number: int) -> str:
    """Return a number as part of a longer word, where a final eins loses its s (hunderteins, but
    hunderteintausend)."""
    word = german(number)
    return word.removesuffix("s") if word.endswith("eins") else word


def numbers(count: int, maximum: int = LARGEST, seed: int = 1) -> tuple[Pair, ...]:
    """Generate `count` distinct numbers from 0 to `maximum`, English to German. Numbers of digits
    are equally frequent as far as possible, because uniform numbers would rarely be below a
    thousand. UserError if there are fewer numbers, or if `maximum` is above 999,999."""
    if not 0 <= maximum <= LARGEST:
        raise UserError(f"the largest number is {maximum}: expected 0 to {LARGEST}")
    if not 1 <= count <= maximum + 1:
        raise UserError(f"{count} different numbers up to {maximum}: expected 1 to {maximum + 1}")
    starts = [0, *(10**digits for digits in range(1, len(str(maximum))))]
    ranges = [range(*ends) for ends in pairwise([*starts, maximum + 1])]
    source, drawn = random.Random(seed), list[int]()
    for number, group in enumerate(sorted(ranges, key=len)):
        share = -((len(drawn) - count) // (len(ranges) - number))
        drawn += source.sample(group, min(share, len(group)))
    source.shuffle(drawn)
    return tuple(
        Pair(english(number), german(number), line) for line, number in enumerate(drawn, start=1)
    )


def _check(number: int) -> None:
    if not 0 <= number <= LARGEST:
        raise ValueError(f"number is {number}: expected 0 to {LARGEST}")
