"""Data made by rules, so that every answer is known."""

from __future__ import annotations

from regard.data.examples import Pair
from regard.data.generated import drinks, numbers, sequences, series
from regard.names import GeneratedLabels, GeneratedPairs


def generate(name: GeneratedPairs | GeneratedLabels, count: int, seed: int) -> tuple[Pair, ...]:
    """Make so many different pairs of this name, with each module's own defaults."""
    match name:
        case "numbers":
            return numbers.numbers(count, seed=seed)
        case "copy":
            return sequences.copy(count, seed)
        case "reverse":
            return sequences.reverse(count, seed)
        case "sort":
            return sequences.sort(count, seed)
        case "drinks":
            return drinks.baskets(count, seed)
        case "series":
            return series.marked_series(count, seed)
