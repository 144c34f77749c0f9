"""Pronouncing dictionaries: a word, white space, and its sounds to the end of the line.

BABEL  B AE1 B AH0 L          CMUdict, sequitur
BABEL(1)  B EY1 B AH0 L       a further pronunciation of the word
babel 0.98 b ei b l           Kaldi, Montreal Forced Aligner: probabilities before the sounds
;;; or #                      comments
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from regard.data.files.lines import Line
from regard.data.files.tables import Row

NEARLY_ALL = 0.95
"""Share of the lines that must have the form of an entry."""
MOST = 0.7
"""Share of the lines with different words, and of words about as long as their sounds."""
MIN_ENTRIES = 5
"""Smallest number of entries."""
MAX_SYMBOLS = 300
"""Largest number of different sounds."""
MAX_SYMBOL = 3
"""Largest median number of characters of a sound."""
COMMENT = re.compile(r"\s*(;;;|#(\s|#|$))")
END_COMMENT = re.compile(r"\s+(;;;|#(?=\s)).*")
VARIANT = re.compile(r"(?<=.)\(\d+\)$")
"""Number of a pronunciation, after the word."""
PROBABILITIES = re.compile(r"^(?:\d+\.\d+\s+)+")


class Dictionary(NamedTuple):
    """Form of a dictionary."""

    lowercases: bool
    """Whether words are in capitals, and read in lower case."""
    has_sounds: bool = True
    """Whether the rest of each line has sounds, and no other text."""

    @property
    def title(self) -> str:
        """Format for messages."""
        if not self.has_sounds:
            return "first word and rest of each line"
        case = ", read in lower case" if self.lowercases else ""
        return f"dictionary of pronunciations, words without marks such as (1){case}"


def entry(line: str) -> tuple[str, str]:
    """Return the word of a line without the number of its pronunciation, and its sounds; without
    sounds, the second text is blank."""
    word, _, sounds = END_COMMENT.sub("", line).strip().replace("\t", " ").partition(" ")
    return VARIANT.sub("", word), " ".join(PROBABILITIES.sub("", sounds.strip()).split())


def dictionary_of(lines: Sequence[str]) -> Dictionary | None:
    """Return the form of a dictionary that begins with these lines; None for a table,
    sentences, or labels with texts. A table of words and sounds with tabs is a dictionary if it has
    comments or several pronunciations."""
    filled = [line for line in lines if line.strip()]
    plain = [line for line in filled if COMMENT.match(line) is None]
    entries = [entry(line) for line in plain]
    if len(entries) < MIN_ENTRIES or not _are_entries(entries):
        return None
    has_tabs = any("\t" in line for line in plain)
    has_marks = len(plain) < len(filled) or any(
        VARIANT.search(line.split()[0]) or PROBABILITIES.match(line.split(None, 1)[-1])
        for line in plain
    )
    if has_tabs and not has_marks:
        return None
    words = [word for word, _ in entries if any(map(str.isalpha, word))]
    return Dictionary(sum(word == word.upper() for word in words) >= NEARLY_ALL * len(words) > 0)


def _are_entries(entries: Sequence[tuple[str, str]]) -> bool:
    """Return whether words and sounds are those of a dictionary: few different short sounds, about
    as many as the word has letters."""
    complete = [(word, sounds.split()) for word, sounds in entries if sounds]
    if len(complete) < NEARLY_ALL * len(entries) or _have_marks(complete):
        return False
    counts = Counter(sound for _, sounds in complete for sound in sounds)
    lengths = [len(sounds) / max(len(word), 1) for word, sounds in complete]
    num_near = sum(0.4 <= length <= 1.7 for length in lengths)
    return (
        len(counts) <= min(MAX_SYMBOLS, counts.total() / 2)
        and median(map(len, counts)) <= MAX_SYMBOL
        and len({word for word, _ in complete}) >= MOST * len(complete)
        and num_near >= MOST * len(complete)
    )


def _have_marks(entries: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether nearly all words have the same delimiter, bracket or quote, or nearly all
    sounds begin with it: `word|B AE T`, `word: B AE T` and `("word" nil (((b ae t) 1)))` are no
    words with sounds after a space."""
    parts = ({*word, sounds[0]} for word, sounds in entries)
    marks = Counter(part for each in parts for part in each if _is_mark(part))
    return max(marks.values(), default=0) >= NEARLY_ALL * len(entries)


def _is_mark(part: str) -> bool:
    return not any(unicodedata.category(letter)[0] in "LMN" for letter in part)


def without_comment(line: Line) -> Line:
    """Return a line without the comment after its entry, and with a note about the comment."""
    if COMMENT.match(line.text):
        return line
    text = END_COMMENT.sub("", line.text)
    return line if text == line.text else line._replace(text=text, note=line.note or "end comment")


def dictionary_rows(lines: Iterable[Line], dictionary: Dictionary) -> Iterator[Row]:
    """Yield a row of word and sounds for each line. Comments have the fault "comment"."""
    for line in lines:
        if COMMENT.match(line.text):
            yield Row((line.text,), line.number, "comment")
            continue
        word, sounds = entry(line.text)
        cells = (word.lower() if dictionary.lowercases else word, sounds)
        yield Row(cells if sounds else cells[:1], line.number, line.fault, line.note)
