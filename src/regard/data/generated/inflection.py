"""Nouns of a made-up language and their forms by case and number.

Vowels of an ending agree with the last vowel of the noun. A final p, t or k is voiced before an
ending with a vowel. The dative plural has an ending of its own, and a few nouns have another stem
in the plural.
"""

from __future__ import annotations

import random

from regard.data.examples import Pair
from regard.data.generated.distinct import distinct_pairs
from regard.errors import UserError

CASES = ("nominative", "accusative", "genitive", "dative")
NUMBERS = ("singular", "plural")
CONSONANTS = "bdfgklmnprstvz"
FINALS = "klmnprst"
BACK, FRONT = "aou", "ei"
ENDINGS = {
    "accusative": ("am", "em"),
    "genitive": ("un", "in"),
    "dative": ("na", "ne"),
    "nominative": ("", ""),
}
"""Endings of each case after a back vowel and after a front vowel."""
PLURAL = ("ok", "ek")
DATIVE_PLURAL = ("ost", "est")
VOICED = {"p": "b", "t": "d", "k": "g"}
IRREGULAR = {
    "rat": "reus",
    "kol": "kaul",
    "men": "mott",
    "sip": "sauf",
    "dok": "dez",
    "luk": "lirr",
}
"""Nouns with their stems in the plural."""
IRREGULAR_SHARE = 0.05
"""Share of the irregular nouns."""
MAX_FORMS = 100_000


def forms(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct nouns with their features, and the form of each. A source is a noun, a tab,
    a case, a tab and a number. UserError for a count below 1 or above `MAX_FORMS`."""
    if count > MAX_FORMS:
        raise UserError(f"{count:,} forms: expected 1 to {MAX_FORMS:,}")
    return distinct_pairs(count, seed, "forms", _draw)


def inflected(noun: str, case: str, number: str) -> str:
    """Return the form of a noun."""
    stem = noun
    if number == "plural":
        irregular = IRREGULAR.get(noun)
        if irregular is not None:
            stem = irregular
        elif case == "dative":
            return _joined(stem, DATIVE_PLURAL)
        else:
            stem = _joined(stem, PLURAL)
    return _joined(stem, ENDINGS[case])


def _joined(stem: str, endings: tuple[str, str]) -> str:
    """Return a stem with the ending that agrees with its last vowel."""
    last = next(letter for letter in reversed(stem) if letter in BACK + FRONT)
    ending = endings[last in FRONT]
    if ending[:1] in (*BACK, *FRONT):
        stem = stem[:-1] + VOICED.get(stem[-1], stem[-1])
    return stem + ending


def _draw(drawing: random.Random) -> tuple[str, str]:
    """Draw a noun with its features, and the form."""
    if drawing.random() < IRREGULAR_SHARE:
        noun = drawing.choice([*IRREGULAR])
    else:
        vowels = drawing.choice((BACK, FRONT))
        syllables = drawing.randint(2, 3)
        letters = (drawing.choice(part) for _ in range(syllables) for part in (CONSONANTS, vowels))
        noun = "".join(letters) + drawing.choice(FINALS)
    case, number = drawing.choice(CASES), drawing.choice(NUMBERS)
    return f"{noun}\t{case}\t{number}", inflected(noun, case, number)
