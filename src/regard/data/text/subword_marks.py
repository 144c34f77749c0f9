"""Texts that were split into subwords before: `lam@@ p` (subword-nmt), `▁lam p` (SentencePiece),
`lam ##p` (WordPiece) or `lam￭ p` (OpenNMT).

Their pieces are joined before scores, which are then those of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CONTINUATION, WORD, INNER, JOINER = "@@", "▁", "##", "￭"
"""Marks at the end of a piece that is continued, at the beginning of a word, at the beginning of a
further piece of a word, and at the side where a piece is joined."""
SUBWORD_MARKS = {
    CONTINUATION: re.compile(r"\w@@(?=\s|$)"),
    WORD: re.compile(r"(?:^|\s)▁\w"),
    INNER: re.compile(r"\w\s##\w"),
    JOINER: re.compile(r"￭\S|\S￭"),
}
"""Marks of programs that split words, and their places in a text."""
CONTINUED = re.compile(r"(?<=\S)@@(?: |$)")
"""End of a piece that the next one continues."""
JOINED = {
    CONTINUATION: CONTINUED,
    INNER: re.compile(r"(?<=\w) ##(?=\w)"),
    JOINER: re.compile(r" ?￭ ?"),
}
"""Places between the pieces of a word."""
SHARE = 0.05
"""Smallest share of texts with several pieces."""
NEARLY_ALL = 0.9
"""Share of texts that begin with the mark of a word."""


def marks_of(texts: Sequence[str]) -> str | None:
    """Return the marks by which texts were split into subwords; None for other texts."""
    if not texts:
        return None
    for mark, place in JOINED.items():
        if sum(place.search(text) is not None for text in texts) >= SHARE * len(texts):
            return mark
    num_words = sum(text.startswith(WORD) for text in texts)
    num_pieces = sum(" " in text.strip() for text in texts)
    are_pieces = num_words >= NEARLY_ALL * len(texts) and num_pieces >= SHARE * len(texts)
    return WORD if are_pieces else None


def marks_in(text: str) -> str | None:
    """Return the marks of one text; None for a text without marks."""
    if text.startswith(WORD):
        return WORD
    return next((mark for mark, place in JOINED.items() if place.search(text)), None)


def joined(text: str, marks: str | None) -> str:
    """Return a text whose pieces are joined to words."""
    if marks in JOINED:
        return JOINED[marks].sub("", text)
    return text.replace(" ", "").replace(WORD, " ").strip() if marks == WORD else text


def all_joined(texts: Iterable[str], marks: str | None) -> list[str]:
    """Return texts whose pieces are joined to words."""
    return [joined(text, marks) for text in texts]
