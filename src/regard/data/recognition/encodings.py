"""Encoding of a text file, recognised from its first bytes."""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice, pairwise
from pathlib import Path

from regard.data.files.lines import AND_UTF8, MARK, NUL, is_utf8, reads_as
from regard.errors import UserError

CODECS = (
    *("cp1252", "cp1250", "iso8859_2", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("cp1257", "koi8_r"),
    *("cp932", "gb18030", "big5", "cp949", "euc_jp", "cp874", "mac_roman"),
)
"""Encodings that are recognised without a byte-order mark, apart from UTF-8, UTF-16 and UTF-32.
Of two that fit equally well, the first is taken."""
MARKS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
"""Byte-order marks with their encodings. That of UTF-8 is removed by the reader of lines."""
ORDERS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
FEW = 0.02
"""Largest share of lines that are not UTF-8 in a file of UTF-8."""
NEARLY = 0.02
"""Difference of implausibility below which two encodings fit equally well."""
MAX_IMPLAUSIBLE = 0.7
"""Implausibility above which an encoding is not taken."""
WORD = re.compile(rb"[^\s,;\"]+")
MIN_WORDS = 5
"""Number of words below which few lines of another encoding do not decide."""
MAX_WORDS = 3000
"""Number of words from which an encoding is recognised."""
IDEOGRAPHIC = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "HALFWIDTH"}
"""Scripts that occur inside one word, by the first word of their characters' names."""
WESTERN = (
    *("äöüß", "àâæçèéêëîïôœùûüÿ", "áéíóúñü", "àèéìíîòóù", "àáâãçéêíóôõúü", "àçèéíïòóúü"),
    *("éèëïöüó", "åäöé", "æøåéòô", "áæéíðóöúýþ", "äöõüšž"),
)
CENTRAL = (
    *("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţ", "čćđšž"),
    *("äöüß", "çë"),
)
LATIN = {
    "cp1252": WESTERN,
    "cp1250": CENTRAL,
    "iso8859_2": CENTRAL,
    "cp1254": ("çğıİöşüâîû", *WESTERN[:6]),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äöõüšž"),
    "mac_roman": WESTERN,
}
"""Letters beyond ASCII of the languages of each encoding of the Latin script."""


@dataclass(frozen=True)
class EastAsian:
    """Usual letters of an encoding of East Asia."""

    older: str
    """Older encoding, which has the usual letters."""
    leads: bytes
    """First bytes of the usual letters in the older encoding."""
    frequent: str
    """Most frequent letters of the language."""


JAPANESE = EastAsian(
    "euc_jp", b"\xa1\xa4\xa5" + bytes(range(0xB0, 0xD0)), "のにはをたがでてとしれさいるなもこう"
)
EAST_ASIAN = {
    "cp932": JAPANESE,
    "euc_jp": JAPANESE,
    "gb18030": EastAsian(
        "gb2312", bytes(range(0xB0, 0xD8)), "的一是不了在人有我他这个们中来上大为和国地到以说"
    ),
    "big5": EastAsian(
        "big5", bytes(range(0xA4, 0xC7)), "的一是不了在人有我他這個們中來上大為和國地到以說"
    ),
    "cp949": EastAsian(
        "euc_kr", bytes(range(0xB0, 0xC9)), "이다는에을의가고하지은를도나로한어기사리들있시"
    ),
}
"""Usual letters by encoding."""
CYRILLIC = "оеаинтсрвл"
FREQUENT = {
    "cp1251": CYRILLIC,
    "koi8_r": CYRILLIC,
    "cp1253": "αοιετσνηυρςάόίέή",
    "cp1255": "יוהלאתרשמבם",
    "cp1256": "اليمنوترهبیک",
    "cp874": "านรอกเงมยลว่",
}
"""Most frequent small letters of the languages of an encoding of another script, about two
thirds of a text."""
RARE = 0.3
"""Implausibility of a text of rare letters of East Asia."""
SHARE_OF_FREQUENT, SHARE_IN_EAST_ASIA = 0.7, 0.1
"""Shares of the most frequent letters in texts of other scripts than Latin."""
NONE_FREQUENT = 0.1
"""Implausibility of a text that has none of the most frequent letters."""
SECOND_LANGUAGE = 0.1
"""Implausibility of letters of two languages instead of one."""
RARELY_WESTERN = 0.3
"""Like `NEARLY`, for cp1252 in a file with few lines beyond ASCII."""
UNLIKELY = {"mac_roman": 0.1}
"""Additional implausibility of encodings that are rare."""
MARGINS = "€£§°«»„“”‚‘’‹›–—…·´©®™¿¡‰×½¼¾²³\xa0"
"""Characters beyond ASCII that occur at the beginning and at the end of words."""
INNER = "’–"
"""Characters beyond ASCII that occur between letters, apart from letters."""


@dataclass(frozen=True)
class Encoding:
    """Encoding of a file."""

    name: str
    """Name of a codec of Python."""
    is_certain: bool = True
    """Whether the file is UTF-8, has a byte-order mark or was named by the user."""
    example: str = ""
    """First word that the second best encoding reads differently, decoded, if the encoding is not
    certain."""
    has_utf8: bool = False
    """Whether lines may be UTF-8 too."""

    @property
    def reading(self) -> str:
        """Name for the reader of lines."""
        return f"{self.name}{AND_UTF8}" if self.has_utf8 else self.name

    @property
    def is_utf8(self) -> bool:
        return self.name == "utf-8"

    @property
    def title(self) -> str:
        """Name of the encoding for messages."""
        return self.name.upper() if self.name.startswith("utf") else self.name


UTF8 = Encoding("utf-8")


def named(name: str) -> Encoding:
    """Return the encoding of this name, or of `Encoding.reading`. UserError for an unknown
    name."""
    has_utf8 = name.endswith(AND_UTF8)
    name = name.removesuffix(AND_UTF8)
    try:
        info = codecs.lookup(name)
        "a".encode(info.name)
        b"a\n\xff\0".decode(info.name, "replace")
    except (LookupError, TypeError, ValueError, UnicodeError):
        raise UserError(
            f"data.encoding is {name[:80]!r}: expected a name such as utf-8, utf-16, cp1252 or "
            "cp1253"
        ) from None
    is_utf8 = info.name in ("utf-8", "utf-8-sig", "ascii")
    return UTF8 if is_utf8 else Encoding(info.name, has_utf8=has_utf8)


def recognise(head: bytes, path: Path) -> Encoding:
    """Return the encoding of a file from its first bytes, which end with a whole line.

    A byte-order mark decides, then valid UTF-8, then NUL bytes at every second place (UTF-16). A
    file with few lines that are not UTF-8 is UTF-8 if it has characters beyond ASCII in UTF-8, or
    fewer than `MIN_WORDS` words with a byte beyond ASCII. Otherwise the words that are not UTF-8
    are decoded with each of `CODECS`; the encoding with the most plausible words is taken. Lines of
    UTF-8 are then read as UTF-8. If few lines have such words, cp1252 precedes encodings that fit
    slightly better. UserError if none is plausible."""
    if head.startswith(MARK):
        return UTF8
    for mark, marked in MARKS.items():
        if head.startswith(mark):
            return Encoding(marked)
    if NUL in head:
        return _with_nul(head)
    if is_utf8(head):
        return UTF8
    lines = head.splitlines()
    beyond = [line for line in lines if not line.isascii()]
    num_wrong = sum(not is_utf8(line) for line in beyond)
    is_rare = num_wrong <= FEW * len(lines)
    has_letters = not head.decode("utf-8", "ignore").isascii()
    if has_letters and (is_rare or 2 * num_wrong <= len(beyond)):
        return UTF8
    candidates = (match[0] for match in WORD.finditer(head))
    words = list(islice((word for word in candidates if not is_utf8(word)), MAX_WORDS))
    if is_rare and len(words) < MIN_WORDS:
        return UTF8
    scores = _scores(words)
    name = _most_plausible(words, scores, prefers_western=is_rare)
    if name is None and is_rare:
        return UTF8
    if name is None:
        raise UserError(
            f"{path}: the encoding was not recognised: name it with --data.encoding, such as cp1252"
        )
    return Encoding(name, False, _example(words, scores, name), has_utf8=True)


def _with_nul(head: bytes) -> Encoding:
    """Return the encoding of a file with NUL bytes; UTF-8, whose reader reports them, unless it is
    UTF-16 or UTF-32."""
    beginning = head[:4000]
    if 8 * beginning.count(NUL) < len(beginning) and is_utf8(head):
        return UTF8
    return next((Encoding(name) for name in ORDERS if reads_as(beginning, name)), UTF8)


def _scores(words: Sequence[bytes]) -> dict[str, float]:
    """Return the implausibility of the words in each encoding in which they can be decoded."""
    scores = {name: _implausibility(words, name) for name in CODECS}
    return {name: score for name, score in scores.items() if score is not None}


def _most_plausible(
    words: Sequence[bytes], scores: Mapping[str, float], *, prefers_western: bool
) -> str | None:
    """Return the encoding in which the words are most plausible, or None if they are in none.
    `prefers_western`: cp1252 precedes encodings that fit slightly better."""
    from charset_normalizer import from_bytes

    lowest = min(scores.values(), default=None)
    if lowest is None or lowest > MAX_IMPLAUSIBLE:
        return None
    if prefers_western and scores.get("cp1252", math.inf) <= lowest + RARELY_WESTERN:
        return "cp1252"
    near = [name for name, score in scores.items() if score <= lowest + NEARLY]
    latin = [name for name in near if name in LATIN]
    if latin:
        return min(latin, key=scores.__getitem__)
    best = from_bytes(b" ".join(words), cp_isolation=list(CODECS)).best()
    suggestions = best.could_be_from_charset if best else []
    return next((name for name in suggestions if name in near), near[0])


def _example(words: Sequence[bytes], scores: Mapping[str, float], name: str) -> str:
    """Return the first word that the most plausible encoding of another reading reads differently;
    one with a letter, if there is any."""
    decoded = [word.decode(name) for word in words]
    for second in sorted(scores, key=scores.__getitem__):
        pairs = zip(words, decoded, strict=True)
        different = [word for content, word in pairs if content.decode(second) != word]
        if different:
            with_letters = (word for word in different if any(map(str.isalpha, word)))
            return next(with_letters, different[0])[:20]
    return decoded[0][:20]


def _implausibility(words: Sequence[bytes], name: str) -> float | None:
    """Return the number of odd places in the words, decoded, over the number of their characters
    beyond ASCII; None if they cannot be decoded.

    Odd are characters beyond ASCII that are no letters, apart from `MARGINS`, capitals after small
    letters, changes of script inside a word, words of capitals beyond ASCII, and in Latin encodings
    letters of other languages than the most frequent ones. In encodings of East Asia, wide
    punctuation is not odd, and rare letters are. In other scripts than Latin, few of the most
    frequent letters are odd."""
    odd, counts = 0.0, Counter[str]()
    for content in words:
        try:
            word = content.decode(name).strip(MARGINS)
        except UnicodeDecodeError:
            return None
        letters = [letter for letter in word if ord(letter) > 127 and letter not in INNER]
        counts.update(letters)
        odd += sum(_is_symbol(letter, name) for letter in letters)
        odd += sum(_is_odd(first, second) for first, second in pairwise(word))
        if len(word) > 1 and word.isupper() and len(letters) == len(word):
            odd += 0.3 * len(word)
    num_letters = max(counts.total(), 1)
    foreign = _rare_share(counts, name) if name in EAST_ASIAN else _foreign_share(counts, name)
    return odd / num_letters + foreign + UNLIKELY.get(name, 0.0)


def _is_symbol(letter: str, name: str) -> bool:
    """Return whether a character is no letter and no punctuation of the scripts of East Asia."""
    category = unicodedata.category(letter)
    if category.startswith(("L", "M")):
        return False
    is_wide = category[0] == "P" and unicodedata.east_asian_width(letter) in ("W", "F")
    return not (name in EAST_ASIAN and (is_wide or letter in MARGINS))


def _rare_share(counts: Mapping[str, int], name: str) -> float:
    """Return the share of rare letters in an encoding of East Asia, weighted, with an addition for
    few of the most frequent letters of the language."""
    usual = EAST_ASIAN[name]
    letters = {letter: count for letter, count in counts.items() if letter.isalpha()}
    total = max(sum(letters.values()), 1)
    num_rare = 0
    for letter, count in letters.items():
        lead = letter.encode(usual.older, "ignore")[:1]
        num_rare += 0 if lead and lead in usual.leads else count
    missing = _missing_share(letters, usual.frequent, SHARE_IN_EAST_ASIA)
    return RARE * num_rare / total + missing


def _missing_share(counts: Mapping[str, int], frequent: str, expected: float) -> float:
    """Return an addition for a share of the most frequent letters below the expected one."""
    num_frequent = sum(count for letter, count in counts.items() if letter.lower() in frequent)
    return NONE_FREQUENT * max(0.0, 1 - num_frequent / max(sum(counts.values()), 1) / expected)


def _foreign_share(counts: Mapping[str, int], name: str) -> float:
    """Return the share of letters that are in no alphabet of one language of this encoding, or of
    two languages with the addition `SECOND_LANGUAGE`. In another script than Latin, return an
    addition for few of the most frequent letters."""
    alphabets = LATIN.get(name)
    letters = {letter: count for letter, count in counts.items() if letter.isalpha()}
    if not letters:
        return 0.0
    if alphabets is None:
        return _missing_share(letters, FREQUENT[name], SHARE_OF_FREQUENT)

    def share(alphabet: str) -> float:
        num_foreign = sum(
            count
            for letter, count in letters.items()
            if letter not in alphabet and letter.lower() not in alphabet
        )
        return num_foreign / sum(letters.values())

    single = min(map(share, alphabets))
    pairs = (share(first + second) for first, second in combinations(alphabets, 2))
    return min(single, min(pairs) + SECOND_LANGUAGE)


def _is_odd(first: str, second: str) -> int:
    """Return the number of reasons why one letter does not follow the other in a word."""
    is_capital = first.islower() and second.isupper()
    scripts = {script_of(first), script_of(second)}
    is_mixed = first.isalpha() and second.isalpha() and len(scripts) > 1
    return is_capital + (is_mixed and not scripts <= IDEOGRAPHIC)


@lru_cache(maxsize=1 << 14)
def script_of(letter: str) -> str:
    """Return the first word of a character's name in Unicode, such as LATIN or GREEK."""
    return unicodedata.name(letter, "?").split()[0]
