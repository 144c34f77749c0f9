"""Covering arrays: few combinations of options in which every valid pair of values occurs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations, product

Row = dict[str, Hashable]
Pair = tuple[tuple[str, int], tuple[str, int]]


def pairwise(
    options: Mapping[str, Sequence[Hashable]], is_valid: Callable[[Row], bool] = lambda row: True
) -> list[Row]:
    """Return combinations in which every pair of values of two options occurs, where it can.

    The first value of each option is its default. A pair counts as impossible if it is invalid
    among defaults and among defaults with any one other value. The result depends on the arguments
    only. Each new combination begins with a missing pair and then takes, option by option, the
    value with the most missing pairs (Cohen et al. 1997, AETG, without its random choices)."""
    defaults = dict.fromkeys(options, 0)

    def suits(places: Mapping[str, int]) -> bool:
        return is_valid({name: values[places[name]] for name, values in options.items()})

    missing = {
        pair
        for left, right in combinations(options, 2)
        for pair in product(
            ((left, place) for place in range(len(options[left]))),
            ((right, place) for place in range(len(options[right]))),
        )
    }
    rows = []
    while missing:
        pair = min(missing)
        start = _completed(defaults, dict(pair), options, suits)
        if start is None:
            missing.discard(pair)
            continue
        row = _extended(start, set(dict(pair)), missing, options, suits)
        missing -= set(_pairs(row))
        rows.append({name: values[row[name]] for name, values in options.items()})
    return rows


def _pairs(row: Mapping[str, int]) -> list[Pair]:
    return list(combinations(row.items(), 2))


def _completed(
    defaults: Mapping[str, int],
    fixed: Mapping[str, int],
    options: Mapping[str, Sequence[Hashable]],
    suits: Callable[[Mapping[str, int]], bool],
) -> dict[str, int] | None:
    """Return a valid combination with these values, changing at most one default."""
    row = {**defaults, **fixed}
    if suits(row):
        return row
    for name in options:
        for place in range(1, len(options[name])):
            if name not in fixed and suits(changed := {**row, name: place}):
                return changed
    return None


def _extended(
    row: dict[str, int],
    fixed: set[str],
    missing: set[Pair],
    options: Mapping[str, Sequence[Hashable]],
    suits: Callable[[Mapping[str, int]], bool],
) -> dict[str, int]:
    """Return the combination with its free options at the values with the most missing pairs."""
    free = [name for name in options if name not in fixed]  # a set has no order of its own
    for name in sorted(free, key=lambda name: -len(options[name])):
        changes = [{**row, name: place} for place in range(len(options[name]))]
        counts = [len(missing.intersection(_pairs(changed))) for changed in changes]
        for place in sorted(range(len(changes)), key=lambda place: -counts[place]):
            if place == row[name] or suits(changes[place]):
                row = changes[place]
                break
    return row
