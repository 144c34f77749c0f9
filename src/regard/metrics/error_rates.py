"""Edits between what was written and what is right: word and character error rate.

Levenshtein's distance (1966) counts the insertions, deletions and substitutions that lead from one
sequence to the other, as few as there can be. A rate is their number over all sentences, for 100
units of the references; it may exceed 100. Of several references of a sentence the one with the
lowest rate counts, with its edits and its units: fewest edits would favour short references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.metrics.text import MetricScore, References, case, check, num_references


def distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions from one to the other."""
    before = list(range(len(other) + 1))
    for row, left in enumerate(one, start=1):
        now = [row]
        for column, right in enumerate(other, start=1):
            changed = before[column - 1] + (left != right)
            now.append(min(changed, before[column] + 1, now[-1] + 1))
        before = now
    return before[-1]


def word_error_rate(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Over words between spaces. Of several references the one with the lowest rate counts."""
    return _rate("WER", str.split, hypotheses, references, lowercase)


def character_error_rate(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Over characters, with words one space apart. Of several references the one with the lowest
    rate counts."""
    return _rate("CER", _characters, hypotheses, references, lowercase)


def _characters(text: str) -> list[str]:
    return list(" ".join(text.split()))


def _rate(
    name: str,
    cut: Callable[[str], list[str]],
    hypotheses: Sequence[str],
    references: References,
    lowercase: bool,
) -> MetricScore:
    check(hypotheses, references)
    edits = units = 0
    for hypothesis, several in zip(hypotheses, references, strict=True):
        ours = cut(hypothesis.lower() if lowercase else hypothesis)
        theirs = [cut(text.lower() if lowercase else text) for text in several]
        counts = [(distance(ours, each), len(each)) for each in theirs]
        fewest, length = min(counts, key=lambda count: count[0] / max(count[1], 1))
        edits, units = edits + fewest, units + length
    signature = f"{num_references(references)}|{case(lowercase)}"
    return MetricScore(name, 100 * edits / max(units, 1), signature)
