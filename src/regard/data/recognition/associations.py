"""Associations between columns: how well the words of one predict another, and whether two are
translations of each other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from regard.data.recognition.encodings import script_of

MAX_ROWS = 500
"""Number of rows that are compared, at equal distances in the table."""
MAX_WORDS = 50
"""Number of words of a text that are compared."""
NUM_TEXTS = 100
"""Number of texts from which a script is recognised."""
NUM_LETTERS = 50
"""Number of characters of each of these texts."""
MIN_CORRELATION = 0.4
"""Smallest correlation between the lengths of translations. Word lists of unrelated languages have
about this value; a title and its article have less."""
MAX_RATIO = 2.0
"""Largest ratio between the mean lengths of translations in one script."""


def predictability(texts: Sequence[str], targets: Sequence[str], *, has_numbers: bool) -> float:
    """Return the share of a target's variation that the words of the texts explain, from 0 to 1:
    for labels, the reduction of the error of the most frequent label; for numbers, the squared
    correlation with their ranks.

    Each row is predicted from the other rows with its words."""
    filled = [
        (text, target) for text, target in zip(texts, targets, strict=True) if text and target
    ]
    filled = filled[:: -(-len(filled) // MAX_ROWS) or 1]
    if len(filled) < 2:
        return 0.0
    words = [sorted(set(re.findall(r"\w+", text.lower())))[:MAX_WORDS] for text, _ in filled]
    if has_numbers:
        order = np.array([float(target) for _, target in filled]).argsort().argsort()
        outcomes = (order - order.mean())[:, None]
    else:
        labels = {
            label: number for number, label in enumerate(sorted({label for _, label in filled}))
        }
        outcomes = np.eye(len(labels))[[labels[label] for _, label in filled]]
    predictions = _from_other_rows(words, outcomes)
    if has_numbers:
        return _correlation(predictions[:, 0], outcomes[:, 0]) ** 2
    baseline = outcomes.mean(axis=0).max()
    accuracy = (predictions.argmax(axis=1) == outcomes.argmax(axis=1)).mean()
    return max(0.0, float((accuracy - baseline) / (1 - baseline))) if baseline < 1 else 0.0


def _from_other_rows(words: Sequence[Sequence[str]], outcomes: np.ndarray) -> np.ndarray:
    """Return a prediction of each row's outcome: the mean, and for each word the deviation from it
    in the other rows with this word. One more row with the mean is counted for each word, so rare
    words count less."""
    mean = outcomes.mean(axis=0)
    deviations = outcomes - mean
    totals: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(outcomes.shape[1]))
    counts = Counter[str]()
    for row, deviation in zip(words, deviations, strict=True):
        counts.update(row)
        for word in row:
            totals[word] += deviation
    predictions = np.tile(mean, (len(outcomes), 1))
    for number, row in enumerate(words):
        for word in row:
            predictions[number] += (totals[word] - deviations[number]) / counts[word]
    return predictions


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of two columns; 0 if it is negative or a column is constant."""
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return max(0.0, float(np.corrcoef(first, second)[0, 1]))


def translation_score(sources: Sequence[str], targets: Sequence[str]) -> int:
    """Return whether two columns of texts look like translations, transcriptions or forms of each
    other: 2 if their lengths correlate, and are similar or those of different scripts; 1 if only
    their scripts differ; otherwise 0."""
    step = -(-len(sources) // MAX_ROWS) or 1
    pairs = [pair for pair in zip(sources[::step], targets[::step], strict=True) if all(pair)]
    if len(pairs) < 2:
        return 0
    scripts_differ = _script([text for text, _ in pairs]) != _script([text for _, text in pairs])
    first, second = np.array([[len(text) for text in pair] for pair in pairs], dtype=float).T
    ratio = float(first.mean() / second.mean())
    is_similar = scripts_differ or 1 / MAX_RATIO <= ratio <= MAX_RATIO
    if is_similar and _correlation(first, second) >= MIN_CORRELATION:
        return 2
    return int(scripts_differ)


def _script(texts: Sequence[str]) -> str:
    """Return the most frequent script of the letters in these texts; blank if they have none."""
    letters = "".join(text[:NUM_LETTERS] for text in texts[:NUM_TEXTS])
    counts = Counter(script_of(letter) for letter in letters if letter.isalpha())
    return counts.most_common(1)[0][0] if counts else ""
