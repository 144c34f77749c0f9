"""Word and character error rate. Lower is better.

The Levenshtein distance (1966) is the least number of insertions, deletions and substitutions that
turn one sequence into the other. An error rate is the number of edits over all sentences, per 100
units of the references; it may exceed 100. If a sentence has several references, the reference with
the lowest rate counts, with its edits and its units: the fewest edits would favour short
references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.metrics.metric import Metric, MetricScore
from regard.metrics.text import References, TextFunction, case, check, num_references


def distance(output: Sequence[str], target: Sequence[str]) -> int:
    """Return the Levenshtein distance between two sequences."""
    previous = list(range(len(target) + 1))
    for number, unit in enumerate(output, start=1):
        row = [number]
        for column, target_unit in enumerate(target, start=1):
            substituted = previous[column - 1] + (unit != target_unit)
            row.append(min(substituted, previous[column] + 1, row[-1] + 1))
        previous = row
    return previous[-1]


def word_error_rate(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Return the error rate over words between spaces."""
    return _rate("WER", str.split, hypotheses, references, lowercase)


def character_error_rate(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Return the error rate over characters, with one space between words."""
    return _rate("CER", _characters, hypotheses, references, lowercase)


ERROR_RATES: tuple[Metric[TextFunction], ...] = (
    Metric("wer", word_error_rate, higher_is_better=False),
    Metric("cer", character_error_rate, higher_is_better=False),
)


def _characters(text: str) -> list[str]:
    return list(" ".join(text.split()))


def _rate(
    name: str,
    split: Callable[[str], list[str]],
    hypotheses: Sequence[str],
    references: References,
    lowercase: bool,
) -> MetricScore:
    check(hypotheses, references)
    edits = units = 0
    for hypothesis, alternatives in zip(hypotheses, references, strict=True):
        output = split(hypothesis.lower() if lowercase else hypothesis)
        targets = [split(text.lower() if lowercase else text) for text in alternatives]
        counts = [(distance(output, target), len(target)) for target in targets]
        fewest, length = min(counts, key=lambda count: count[0] / max(count[1], 1))
        edits, units = edits + fewest, units + length
    signature = f"{num_references(references)}|{case(lowercase)}"
    return MetricScore(name, 100 * edits / max(units, 1), signature)
