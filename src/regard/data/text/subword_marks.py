"""Texts that were split into subwords before: `lam@@ p` (subword-nmt) or `▁lam p` (SentencePiece).

Their pieces are joined before scores, which are then those of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CONTINUATION, WORD = "@@", "▁"
"""Mark at the end of a piece that is continued, and at the beginning of a word."""
SUBWORD_MARKS = {
    CONTINUATION: re.compile(r"\w@@(?=\s|$)"),
    WORD: re.compile(r"(?:^|\s)▁\w"),
    "##": re.compile(r"\w\s##\w"),
    "￭": re.compile(r"￭\w|\w￭"),
}
"""Marks of programs that split words, and their places in a text."""
CONTINUED = re.compile(r"(?<=\S)@@(?: |$)")
"""End of a piece that the next one continues."""
SHARE = 0.05
"""Smallest share of texts with several pieces."""
NEARLY_ALL = 0.9
"""Share of texts that begin with the mark of a word."""


def marks_of(texts: Sequence[str]) -> str | None:
    """Return the marks by which texts were split into subwords; None for other texts."""
    if not texts:
        return None
    if sum(CONTINUED.search(text) is not None for text in texts) >= SHARE * len(texts):
        return CONTINUATION
    num_words = sum(text.startswith(WORD) for text in texts)
    num_pieces = sum(" " in text.strip() for text in texts)
    are_pieces = num_words >= NEARLY_ALL * len(texts) and num_pieces >= SHARE * len(texts)
    return WORD if are_pieces else None


def joined(text: str, marks: str | None) -> str:
    """Return a text whose pieces are joined to words."""
    if marks == CONTINUATION:
        return CONTINUED.sub("", text)
    return text.replace(" ", "").replace(WORD, " ").strip() if marks == WORD else text


def all_joined(texts: Iterable[str], marks: str | None) -> list[str]:
    """Return texts whose pieces are joined to words."""
    return [joined(text, marks) for text in texts]
