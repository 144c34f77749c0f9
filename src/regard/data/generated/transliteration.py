"""Greek words and their transliteration by ELOT 743, without accents, as in passports.

The words are verbs and nouns with their prefixes and endings. Pairs of letters count: αυ is av or
af, μπ is b at the beginning of a word and mp inside it, γγ is ng.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from regard.data.examples import Pair
from regard.errors import UserError


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


PREFIXES = ("", *_listed("περι αντι κατα υπο προ μετα παρα δια ανα απο επι συν εν ευ"))
VERBS = _listed(
    "γράφ τρέχ βάλλ φέρ λέγ μέν παίζ δουλεύ πιστεύ χορεύ φεύγ ταξιδεύ μαγειρεύ παύ λάμπ κόπτ τρέπ "
    "στρέφ τάσσ κρίν τείν πλέκ δείχν ψάχν θέλ ξέρ φτιάχν καλύπτ κρύβ χάν πέφτ μαθαίν πηγαίν βγαίν "
    "μπαίν γκρινιάζ τσακίζ διαβάζ φυσάρ ζωγραφίζ νομίζ καθαρίζ σφίγγ ψύχ ξυπνάδ"
)
VERB_ENDINGS = _listed("ω εις ει ουμε ετε ουν οντας ομαι εσαι εται ονται")
NOUNS = _listed(
    "δρόμ κόσμ φίλ λόγ νόμ τόπ χρόν τρόπ πύργ κήπ ξέν βράχ ψεύτ ναύτ λάμπρ γάιδαρ φάρ χώρ πάγ μύθ "
    "ρύθμ στόχ βαθμ φόβ πόθ ζήλ θρόν κλήρ"
)
NOUN_ENDINGS = _listed("ος ου ο ε οι ων ους")
PLAIN = dict(zip("άέήίόύώϊΐϋΰ", "αεηιουωιιυυ", strict=True))
"""Letters with a mark, and the letters without it."""
LETTERS = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        _listed("a v g d e z i th i k l m n x o p r s s t y f ch ps o"),
        strict=True,
    )
)
GROUPS = {"γγ": "ng", "γξ": "nx", "γχ": "nch", "ου": "ou"}
"""Groups of letters with a transliteration of their own."""
VOICED = frozenset("αβγδεζηιλμνορυω")
"""Letters before which the second letter of αυ, ευ and ηυ is v; before others it is f."""


def transliterated(word: str) -> str:
    """Return a Greek word of small letters in Latin letters, without accents. ValueError for other
    letters."""
    # An accent on the first of two vowels, as in γάιδαρος, separates them.
    word = re.sub("([άέό])([ιυ])", r"\1|\2", word)
    plain = "".join(PLAIN.get(letter, letter) for letter in word)
    return "".join(_parts(plain))


def _parts(word: str) -> Iterator[str]:
    place = 0
    while place < len(word):
        pair = word[place : place + 2]
        if pair in ("αυ", "ευ", "ηυ"):
            following = word[place + 2 : place + 3]
            yield LETTERS[pair[0]] + ("v" if following in VOICED and following else "f")
        elif pair == "μπ":
            yield "mp" if place else "b"
        elif pair in GROUPS:
            yield GROUPS[pair]
        elif word[place] == "|":
            place += 1
            continue
        elif word[place] in LETTERS:
            yield LETTERS[word[place]]
            place += 1
            continue
        else:
            raise ValueError(f"{word[place]!r} is not a small Greek letter")
        place += 2


def with_prefix(prefix: str, stem: str) -> str:
    """Return a stem after a prefix, whose ν changes before the stem: συν and γραφ are συγγραφ."""
    if not prefix.endswith("ν"):
        return prefix + stem
    first = stem[0]
    if first in "πβφψμ":
        return f"{prefix[:-1]}μ{stem}"
    if first in "γκχξ":
        return f"{prefix[:-1]}γ{stem}"
    if first in "λρ":
        return f"{prefix[:-1]}{first}{stem}"
    return (prefix[:-1] if first in "σζ" else prefix) + stem


def greek_words() -> tuple[str, ...]:
    """Return all words that the parts form, in a fixed order."""
    verbs = (
        with_prefix(prefix, stem) + ending
        for prefix in PREFIXES
        for stem in VERBS
        for ending in VERB_ENDINGS
    )
    nouns = (
        with_prefix(prefix, stem) + ending
        for prefix in PREFIXES
        for stem in NOUNS
        for ending in NOUN_ENDINGS
    )
    return tuple(dict.fromkeys((*verbs, *nouns)))


def transliterations(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct Greek words with their transliterations. UserError if there are fewer."""
    words = greek_words()
    if not 1 <= count <= len(words):
        raise UserError(f"{count:,} Greek words: expected 1 to {len(words):,}")
    drawn = random.Random(seed).sample(words, count)
    return tuple(Pair(word, transliterated(word), line) for line, word in enumerate(drawn, start=1))
