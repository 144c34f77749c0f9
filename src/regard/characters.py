"""Characters that cannot be seen, and texts in Unicode's composed form (NFC).

    JOINERS      shape the characters beside them: zero width joiner, variation selectors
    INVISIBLE    have no width and shape nothing: soft hyphen, zero width space, direction marks

Both together are Unicode's default ignorable characters, format characters that are not drawn, and
controls that are no white space.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

JOINERS = (
    "\u115f\u1160\u180b-\u180f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef\U00013430-\U0001343f"
)
"""Joiners, fillers of Hangul syllables, and selectors of variants, for a class of characters."""
INVISIBLE = (
    "\x01-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u17b4\u17b5\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
"""Characters without width that join nothing, for a class of characters."""
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
"""Flag of a region, which ends with tags."""
_INVISIBLE = re.compile(f"{_FLAG}|([\0{INVISIBLE}])")
_BLANK = re.compile(rf"[\s{INVISIBLE}{JOINERS}]*")
_UNSEEN = re.compile(rf"[\s{INVISIBLE}{JOINERS}]+")
_UNSEEN_CHARACTERS = frozenset(
    chr(code)
    for first, last in re.findall("(.)(?:-(.))?", INVISIBLE + JOINERS, re.DOTALL)
    for code in range(ord(first), ord(last or first) + 1)
) | frozenset(chr(code) for code in range(0x3001) if chr(code).isspace())
_ALIKE = str.maketrans(
    "‘’‚‛`´′‹›“”„‟″«»‐‑‒–—―−ı",
    "'''''''''\"\"\"\"\"\"\"-------i",
    "\u0307",
)
"""Quotes, hyphens and the dotless i of Turkish, each with the usual character, and the dot that a
Turkish capital I keeps in lower case."""
PRINTABLE = "\u034f\u17b4\u17b5\u3164\uffa0"
"""Invisible characters that Python counts as printable."""


def composed(text: str) -> str:
    """Return a text in NFC, with single spaces, as models read texts: the form of labels and of
    values of features."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def is_blank_text(text: str) -> bool:
    """Return whether a text has only white space, invisible characters and joiners."""
    # The first character decides about most texts, in a third of the time.
    return not text or (text[0] in _UNSEEN_CHARACTERS and _BLANK.fullmatch(text) is not None)


def has_invisible(text: str) -> bool:
    """Return whether a text has invisible characters. This is fast for texts without them."""
    if text.isprintable() and (text.isascii() or not any(map(text.__contains__, PRINTABLE))):
        return False
    return any(match[1] for match in _INVISIBLE.finditer(text))


def invisible_in(text: str) -> Iterator[str]:
    """Yield the invisible characters of a text."""
    yield from (match[1] for match in _INVISIBLE.finditer(text) if match[1])


def with_escapes(text: str) -> str:
    r"""Return a text for a message: its invisible characters are escapes, such as \u00ad."""
    return _INVISIBLE.sub(lambda match: escape(match[1]) if match[1] else match[0], text)


def escape(character: str) -> str:
    r"""Return the escape of a character, such as \x07, \u00ad or \U000e0041."""
    code = ord(character)
    if code < 0x80:
        return character.encode("unicode_escape").decode()
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted(text: str, longest: int) -> str:
    """Return the beginning of a text in quotes, for a message, with escapes."""
    shown = with_escapes(text[:longest]).replace("\t", r"\t").replace("\n", r"\n")
    return f'"{shown}"' if "'" in shown and '"' not in shown else f"'{shown}'"


def comparable(text: str) -> str:
    """Return a text without differences that are hardly seen: case, white space, invisible
    characters and joiners, full width and other forms of one character (NFKC), and kinds of quotes
    and hyphens."""
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", text).casefold())
    return plain.translate(_ALIKE)


def name_of(character: str) -> str:
    """Return the escape and the name of a character."""
    name = unicodedata.name(character, "").lower()
    return f"{escape(character)} ({name})" if name else escape(character)
