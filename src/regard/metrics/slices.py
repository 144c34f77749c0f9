"""Slices: parts of the outputs on which a model is worse than on its other outputs.

Every output has a score and a value of each feature. A feature with few values has a
slice for each value; numbers with more values are cut at their terciles. A slice is worse if the
difference of its mean score from that of the other outputs is larger than by chance. Chance is
measured by random permutations of the scores over the outputs (approximate randomisation, Noreen
1989). The p values are corrected for the number of slices (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.metrics.text import References, exact_match
from regard.shapes import Bool, Float

Value = str | int | float
"""Value of a feature."""
MIN_OUTPUTS = 30
"""Smallest number of outputs of a slice, and of the other outputs."""
MAX_VALUES = 5
MAX_P = 0.01
NUM_PERMUTATIONS = 10_000
PERMUTED_AT_ONCE = 1_000_000
"""Number of scores that are permuted at a time."""


@dataclass(frozen=True)
class Feature:
    """A value of every output, and a description of the outputs with the value "{}". Outputs
    with the value None or NaN, which is unknown, are neither in a slice nor among the others."""

    description: str
    values: Sequence[Value | None]


@dataclass(frozen=True)
class Slice:
    """Outputs whose mean score is worse than that of the others."""

    name: str
    num: int
    metric: str
    score: float
    others: float
    p: float
    """Probability of such a difference by chance, corrected for the number of slices."""

    def __str__(self) -> str:
        return (
            f"worse on {self.name} ({self.num}): {self.metric} {self.score:.1f}, others "
            f"{self.others:.1f}"
        )


@dataclass(frozen=True)
class _Part:
    name: str
    inside: Bool[np.ndarray, "output"]
    others: Bool[np.ndarray, "output"]


def find_slices(
    scores: Sequence[float],
    features: Sequence[Feature],
    metric: str,
    num_permutations: int = NUM_PERMUTATIONS,
    seed: int = 1,
) -> tuple[Slice, ...]:
    """Return the slices that are worse than the others at p < 0.01, the largest difference first.
    Higher scores are better. ValueError for a feature with another number of outputs."""
    numbers = np.asarray(scores, dtype=np.float64)
    parts = [part for feature in features for part in _parts(feature, len(numbers))]
    if not parts:
        return ()
    contrasts = np.stack([part.inside / part.inside.sum() for part in parts])
    contrasts -= np.stack([part.others / part.others.sum() for part in parts])
    differences = contrasts @ numbers
    as_low = np.zeros(len(parts))
    generator = np.random.default_rng(seed)
    size = max(1, PERMUTED_AT_ONCE // len(numbers))
    for first in range(0, num_permutations, size):
        rows = np.tile(numbers, (min(size, num_permutations - first), 1))
        permuted = generator.permuted(rows, axis=1) @ contrasts.T
        as_low += (permuted <= differences + 1e-9).sum(axis=0)
    corrected = holm((as_low + 1) / (num_permutations + 1))
    slices = [
        Slice(
            part.name,
            int(part.inside.sum()),
            metric,
            float(numbers[part.inside].mean()),
            float(numbers[part.others].mean()),
            float(p),
        )
        for part, p, difference in zip(parts, corrected, differences, strict=True)
        if p < MAX_P and difference < 0
    ]
    return tuple(sorted(slices, key=lambda part: part.score - part.others))


def holm(p_values: Float[np.ndarray, "slice"]) -> Float[np.ndarray, "slice"]:
    """Return p values corrected for their number: the k-th smallest of n times n - k + 1, at most
    1 and not below a smaller one (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return corrected


def _parts(feature: Feature, num_outputs: int) -> Iterator[_Part]:
    """Yield the slices of a feature that have enough outputs, and enough others."""
    if len(feature.values) != num_outputs:
        raise ValueError(
            f"values of {feature.description!r}: expected {num_outputs}, got {len(feature.values)}"
        )
    values = np.array([_known(value) for value in feature.values], dtype=object)
    known = np.array([value is not None for value in values], dtype=bool)
    different = sorted(set(values[known].tolist()), key=lambda value: (str(type(value)), value))
    if len(different) > MAX_VALUES and not any(isinstance(value, str) for value in different):
        low, high = np.quantile(values[known].astype(float), [1 / 3, 2 / 3])
        groups = [
            [value for value in different if value <= low],
            [value for value in different if low < value <= high],
            [value for value in different if value > high],
        ]
    else:
        groups = [[value] for value in different]
    for group in filter(None, groups):
        members = set(group)
        inside = np.array([value in members for value in values], dtype=bool)
        others = known & ~inside
        if min(inside.sum(), others.sum()) >= MIN_OUTPUTS:
            texts = list(dict.fromkeys(map(_shown, (group[0], group[-1]))))
            yield _Part(feature.description.format(" to ".join(texts)), inside, others)


def _known(value: Value | None) -> Value | None:
    return None if isinstance(value, float) and np.isnan(value) else value


def _shown(value: Value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def text_scores(texts: Sequence[str], references: References, *, exact: bool) -> list[float]:
    """Return a score for each text, in per cent: chrF, or with `exact` 100 for a text that equals
    a reference and 0 for others."""
    if exact:
        rows = zip(texts, references, strict=True)
        return [exact_match([text], [targets]).value for text, targets in rows]
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    rows = zip(texts, references, strict=True)
    return [metric.sentence_score(text, list(targets)).score for text, targets in rows]


def crossing_links(positions: Sequence[int]) -> float:
    """Return the percentage of pairs of target pieces whose source positions are in the reverse
    order. NaN for fewer than two pieces."""
    if len(positions) < 2:
        return float("nan")
    places = np.asarray(positions)
    crossing = np.triu(places[:, None] > places[None], k=1).sum()
    return float(100 * crossing / (len(places) * (len(places) - 1) / 2))
