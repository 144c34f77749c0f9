"""Lines whose first word is a label: TREC's format (DESC:def What is a pulsar ?) and fastText's
(__label__DESC What is a pulsar ?)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from regard.data.several_labels import FASTTEXT

NEARLY_ALL = 0.95
"""Share of lines whose first word must be a label."""
MIN_COUNT = 5
"""Smallest number of lines with each label, if labels look like words of a text."""
MAX_INSIDE = 0.02
"""Largest share of texts that have a label inside, if labels look like words of a text."""
CODE = re.compile(r"[^\W\d_][\w.+-]*:[\w.+-]+|[^\W_]+(?:_[^\W_]+)+")
"""Label and finer label, such as DESC:def, or words joined by underscores."""
CAPITALS = re.compile(r"[A-Z][A-Z0-9+-]+")
"""Label in capitals."""
NUMBER = re.compile(r"[-+]?\d{1,2}")
"""Class number or grade."""
LETTER = re.compile("[A-Z]")
LETTERS = [chr(ord("A") + place) for place in range(26)]
"""Classes A, B and so on, without gaps: not the words A and I."""
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def split_labels(line: str) -> tuple[tuple[str, ...], str]:
    """Return the labels of a line and its text. fastText's labels have a mark, and may be anywhere
    in the line; otherwise the first word is the label."""
    if FASTTEXT not in line:
        label, _, text = line.strip().partition(" ")
        return (label,), " ".join(text.split())
    words = line.split()
    labels = (part for word in words if FASTTEXT in word for part in word.split(FASTTEXT))
    text = " ".join(word for word in words if FASTTEXT not in word)
    return tuple(label.strip(",;|") for label in labels if label.strip(",;|")) or ("",), text


def are_marked(lines: Sequence[str]) -> bool:
    """Return whether lines are in fastText's format: most have its mark."""
    return 2 * sum(FASTTEXT in line for line in lines) > len(lines)


def have_labels_first(rows: Sequence[tuple[str, str]]) -> bool:
    """Return whether the first words of lines are labels, and not the first words of sentences,
    from the rest and the first word of each line. Labels have a form that words of a text seldom
    have, or they are words that are not read as the beginning of the text."""
    labels = Counter(label for _, label in rows)
    texts = [text for text, _ in rows]
    if not rows:
        return False
    are_capital = 2 * sum(text.isupper() for text in texts) > len(texts)
    if _share(labels, CODE) >= NEARLY_ALL:
        return True
    if _share(labels, CAPITALS) >= NEARLY_ALL:
        return not are_capital
    if _share(labels, NUMBER) >= NEARLY_ALL:
        return _are_classes(labels)
    if _share(labels, LETTER) == 1:
        return min(labels.values()) >= MIN_COUNT and sorted(labels) == LETTERS[: len(labels)]
    return _share(labels, WORD) == 1 and _precede_sentences(labels, texts)


def _share(labels: Counter[str], form: re.Pattern[str]) -> float:
    """Return the share of lines whose first word has this form."""
    return sum(n for label, n in labels.items() if form.fullmatch(label)) / labels.total()


def _are_classes(labels: Counter[str]) -> bool:
    """Return whether numbers are classes or grades, without gaps: not amounts."""
    numbers = sorted({int(label) for label in labels if NUMBER.fullmatch(label)})
    is_signed = set(numbers) <= {-1, 0, 1} and -1 in numbers
    is_whole = numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[-1] + 1))
    return (is_signed or is_whole) and min(labels.values()) >= MIN_COUNT


def _precede_sentences(labels: Counter[str], texts: Sequence[str]) -> bool:
    """Return whether words are labels before texts: each is frequent, the texts lack them, and the
    texts begin like sentences wherever letters have case."""
    if min(labels.values()) < MIN_COUNT:
        return False
    names = {label.casefold() for label in labels}
    num_inside = sum(not names.isdisjoint(WORD.findall(text.casefold())) for text in texts)
    if num_inside > MAX_INSIDE * len(texts):
        return False
    num_capital = sum(text[:1].isupper() for text in texts)
    if any(label[:1].isupper() for label in labels):
        return num_capital > len(texts) / 2
    return num_capital > len(texts) / 2 or not any(text != text.lower() for text in texts)
