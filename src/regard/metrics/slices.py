"""Slices: parts of the outputs on which a model is worse than on its other outputs.

Every output has a score and a value of each feature. A text, or a number with few values, has a
slice for each value; numbers with more values are cut at their terciles. A slice is worse if the
difference of its mean score from that of the other outputs is larger than by chance. Chance is
measured by permutations of the scores over the outputs whose value of the feature is known
(approximate randomisation, Noreen 1989). Scores with two values, such as right and wrong, have an
exact p value. The p value of other scores, rounded to 32 levels, is measured by random
permutations, which stop early if the slice is not worse (Besag and Clifford 1991). The p values are
corrected for the number of slices (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.metrics.text import References, exact_match
from regard.runtime.progress import OnProgress
from regard.shapes import Float, Int

Value = str | int | float
"""Value of a feature."""
MIN_OUTPUTS = 30
"""Smallest number of outputs of a slice, and of the other outputs."""
MAX_VALUES = 5
"""Largest number of different numbers of which each has a slice of its own."""
MAX_P = 0.01
"""A slice is reported if its corrected p value is below this."""
NUM_AS_LOW = 20
"""Permutations of a slice stop after this number of permutations in which its mean is as low. They
are at most `NUM_AS_LOW` / `MAX_P` times the number of slices, so that this number is expected at
the smallest threshold of Holm's correction: `MAX_P` over the number of slices."""
MAX_LEVELS = 32
"""Number of values to which scores are rounded for random permutations."""
FIRST_PERMUTED, PERMUTED_AT_ONCE = 256, 16_384
"""Number of permutations that are drawn at a time: the first, and the most."""


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
    """Slice before its p value is known."""

    name: str
    inside: Int[np.ndarray, "level"]
    """Number of outputs of the slice with each level of the score."""
    known: Int[np.ndarray, "level"]
    """Number of outputs of the slice and its others with each level of the score."""
    score: float
    others: float


def find_slices(
    scores: Sequence[float],
    features: Sequence[Feature],
    metric: str,
    *,
    seed: int = 1,
    on_progress: OnProgress | None = None,
) -> tuple[Slice, ...]:
    """Return the slices that are worse than the others at p < 0.01, the largest difference first.
    Higher scores are better. ValueError for a feature with another number of outputs."""
    numbers = np.asarray(scores, dtype=np.float64)
    levels, means = _levels(numbers)
    parts = [part for feature in features for part in _parts(feature, numbers, levels)]
    if not parts:
        return ()
    generator = np.random.default_rng(seed)
    maximum = math.ceil(NUM_AS_LOW * len(parts) / MAX_P)
    p_values = []
    for number, part in enumerate(parts):
        if on_progress:
            on_progress("testing slices", number, len(parts))
        p_values.append(_p_value(part, means, maximum, generator))
    corrected = holm(np.array(p_values))
    slices = [
        Slice(part.name, int(part.inside.sum()), metric, part.score, part.others, float(p))
        for part, p in zip(parts, corrected, strict=True)
        if p < MAX_P and part.score < part.others
    ]
    return tuple(sorted(slices, key=lambda part: part.score - part.others))


def _levels(
    scores: Float[np.ndarray, "output"],
) -> tuple[Int[np.ndarray, "output"], Float[np.ndarray, "level"]]:
    """Return the level of each score, and the mean score of each level, lowest first. Levels are
    the different scores, or if these are many, equal intervals."""
    different, levels = np.unique(scores, return_inverse=True)
    if len(different) > MAX_LEVELS:
        edges = np.linspace(different[0], different[-1], MAX_LEVELS + 1)
        levels = np.unique(np.digitize(scores, edges[1:-1]), return_inverse=True)[1]
    return levels, np.bincount(levels, weights=scores) / np.bincount(levels)


def _p_value(
    part: _Part, means: Float[np.ndarray, "level"], maximum: int, generator: np.random.Generator
) -> float:
    """Return the probability that a random permutation of the scores gives the slice a mean as low
    as its own. 1 for a slice that is not worse. `maximum` is the largest number of permutations."""
    if part.score >= part.others:
        return 1.0
    levels = np.flatnonzero(part.known)
    inside, known, means = part.inside[levels], part.known[levels], means[levels]
    if len(levels) == 2:
        return _exact_p_value(*inside.tolist(), *known.tolist())
    return _random_p_value(inside, known, means - means[0], maximum, generator)


def _exact_p_value(low: int, high: int, all_low: int, all_high: int) -> float:
    """Return the probability that `low` or more of `low + high` outputs, drawn from `all_low` and
    `all_high` outputs, have the lower of two scores (hypergeometric distribution)."""
    num = low + high
    every = _log_choices(all_low + all_high, num)
    probabilities = [
        math.exp(_log_choices(all_low, number) + _log_choices(all_high, num - number) - every)
        for number in range(low, min(num, all_low) + 1)
    ]
    return min(math.fsum(probabilities), 1.0)


def _log_choices(num: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose `chosen` of `num` outputs."""
    return math.lgamma(num + 1) - math.lgamma(chosen + 1) - math.lgamma(num - chosen + 1)


def _random_p_value(
    inside: Int[np.ndarray, "level"],
    known: Int[np.ndarray, "level"],
    values: Float[np.ndarray, "level"],
    maximum: int,
    generator: np.random.Generator,
) -> float:
    """Return the sequential p value of random permutations (Besag and Clifford 1991).

    Permutations are drawn until `NUM_AS_LOW` of them have a sum of values as low as the slice. The
    p value is `NUM_AS_LOW` over the number drawn. After `maximum` permutations, it is the share
    that is as low; the observed scores count as a further permutation. A permutation is drawn as
    the number of outputs of the slice with each level, which takes a time that does not depend on
    the number of outputs. Values may not be negative."""
    largest = float(inside @ values) * (1 + 1e-9)  # sums that differ by rounding are equal
    num_drawn = num_low = 0
    while num_drawn < maximum:
        size = min(max(num_drawn, FIRST_PERMUTED), PERMUTED_AT_ONCE, maximum - num_drawn)
        drawn = generator.multivariate_hypergeometric(
            known, int(inside.sum()), size=size, method="marginals"
        )
        places = np.flatnonzero(drawn @ values <= largest)
        if num_low + len(places) >= NUM_AS_LOW:
            return NUM_AS_LOW / (num_drawn + int(places[NUM_AS_LOW - num_low - 1]) + 1)
        num_drawn += size
        num_low += len(places)
    return (num_low + 1) / (maximum + 1)


def holm(p_values: Float[np.ndarray, "slice"]) -> Float[np.ndarray, "slice"]:
    """Return p values corrected for their number: the k-th smallest of n times n - k + 1, at most
    1 and not below a smaller one (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return corrected


def _parts(
    feature: Feature, scores: Float[np.ndarray, "output"], levels: Int[np.ndarray, "output"]
) -> Iterator[_Part]:
    """Yield the slices of a feature that have enough outputs, and enough others."""
    if len(feature.values) != len(scores):
        raise ValueError(
            f"values of {feature.description!r}: expected {len(scores)}, got {len(feature.values)}"
        )
    values = [_known(value) for value in feature.values]
    is_known = np.array([value is not None for value in values], dtype=bool)
    known_values = [value for value in values if value is not None]
    if not known_values:
        return
    groups = _groups(known_values)
    group_of = {value: number for number, group in enumerate(groups) for value in group}
    numbers = np.array([group_of[value] for value in known_values])
    size, num_levels = len(groups), int(levels.max()) + 1
    cells = numbers * num_levels + levels[is_known]
    inside = np.bincount(cells, minlength=size * num_levels).reshape(size, num_levels)
    sums = np.bincount(numbers, weights=scores[is_known], minlength=size)
    known, total = inside.sum(axis=0), float(sums.sum())
    for group, row, subtotal in zip(groups, inside, sums.tolist(), strict=True):
        num, num_others = int(row.sum()), int(known.sum() - row.sum())
        if min(num, num_others) >= MIN_OUTPUTS:
            texts = list(dict.fromkeys(map(_shown, (group[0], group[-1]))))
            name = feature.description.format(" to ".join(texts))
            yield _Part(name, row, known, subtotal / num, (total - subtotal) / num_others)


def _groups(values: Sequence[Value]) -> list[list[Value]]:
    """Return the different values of each slice, in order."""
    different = sorted(set(values), key=lambda value: (str(type(value)), value))
    if len(different) <= MAX_VALUES or any(isinstance(value, str) for value in different):
        return [[value] for value in different]
    low, high = np.quantile(np.array(values, dtype=np.float64), [1 / 3, 2 / 3])
    groups = [
        [value for value in different if value <= low],
        [value for value in different if low < value <= high],
        [value for value in different if value > high],
    ]
    return [group for group in groups if group]


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
