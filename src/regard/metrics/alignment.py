"""From weights to links between words, and how right the links are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard import trace
from regard.errors import UserError
from regard.names import AttentionKind, LinkUnit
from regard.trace import END_PIECE, START_PIECE, AttentionMap, Trace

Link = tuple[int, int]
"""The number of a source position and of a target position, from 0."""
"""What links join: words, or the pieces that they are cut into, such as letters."""

GOLD = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")
"""A link. No text has a thousand million words."""


def links(
    weights: Float[np.ndarray, "target source"], threshold: float | None = None
) -> list[Link]:
    """Link every target position with the source position that it looked at most, and with a
    threshold also with all whose weight reaches it. A row of zeros has no link."""
    if not weights.size:
        return []
    rows = np.flatnonzero(weights.max(axis=1) > 0)
    found = {(int(weights[row].argmax()), int(row)) for row in rows}
    if threshold is not None:
        found |= {
            (int(source), int(target)) for target, source in np.argwhere(weights >= threshold)
        }
    return sorted(found)


def word_links(
    links: Iterable[Link], source_words: Sequence[int], target_words: Sequence[int]
) -> list[Link]:
    """Links between pieces as links between the words that they are of."""
    return sorted({(source_words[source], target_words[target]) for source, target in links})


def map_links(
    maps: Sequence[AttentionMap],
    across: trace.TokenSequence,
    down: trace.TokenSequence,
    threshold: float | None = None,
    unit: LinkUnit = "words",
) -> list[Link]:
    """The links between the words of two sequences, or between their pieces, by the mean over all
    layers and heads of these maps, one of each model that wrote together. Links of starts and ends
    are left out."""
    weights = np.mean([each.weights.mean(axis=(0, 1)) for each in maps], axis=0)
    found = links(weights, threshold)
    kept = [
        (source, target)
        for source, target in found
        if not {START_PIECE, END_PIECE} & {across.pieces[source], down.pieces[target]}
    ]
    return kept if unit == "pieces" else word_links(kept, across.words, down.words)


def trace_links(
    trace: Trace,
    kind: AttentionKind = "cross",
    threshold: float | None = None,
    unit: LinkUnit = "words",
) -> list[Link]:
    """The links between the words of a trace, or between its pieces, as `map_links` finds them."""
    across = trace.across(kind)
    if across is None:
        raise ValueError(f"links join {unit}, but a map of kind {kind!r} looks at cells")
    return map_links(trace.maps(kind), across, trace.down(kind), threshold, unit)


def pharaoh(links: Iterable[Link]) -> str:
    """Links as a line "0-0 1-2": source, then target, from 0."""
    return " ".join(f"{source}-{target}" for source, target in links)


@dataclass(frozen=True)
class GoldLinks:
    """What people say about one pair: links that must be there, and links that may be. The sure
    ones are among the possible ones."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_pharaoh(line: str, first: int = 0) -> GoldLinks:
    """Read a line of links: "1-2" is a sure one, "1p2" and "1?2" are possible ones. `first` is
    what the first word is numbered with. UserError for anything else."""
    sure, possible = set(), set()
    for piece in line.split():
        found = GOLD.fullmatch(piece)
        if not found or min(int(found[1]), int(found[3])) < first:
            raise UserError(
                f"{piece[:60]!r} is no link: expected source-target such as 0-2 (sure), 0p2 or 0?2 "
                f"(possible), numbered from {first}"
            )
        link = int(found[1]) - first, int(found[3]) - first
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """Shares from 0 to 1. Less `error_rate` is better."""

    precision: float
    recall: float
    error_rate: float


def score_alignments(
    found: Sequence[AbstractSet[Link]], gold: Sequence[GoldLinks]
) -> AlignmentScore:
    """Alignment error rate (Och & Ney 2003, section 6.1), counted over the whole corpus: with the
    found links A, the sure S and the possible P,

        precision = |A & P| / |A|    recall = |A & S| / |S|
        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
    """
    if len(found) != len(gold):
        raise ValueError(
            f"gold links must be given for every pair: {len(gold)} came for {len(found)} pairs"
        )
    pairs = list(zip(found, gold, strict=True))
    num_found = sum(map(len, found))
    num_sure = sum(len(each.sure) for each in gold)
    in_sure = sum(len(ours & each.sure) for ours, each in pairs)
    in_possible = sum(len(ours & each.possible) for ours, each in pairs)
    return AlignmentScore(
        precision=_share(in_possible, num_found),
        recall=_share(in_sure, num_sure),
        error_rate=1 - _share(in_sure + in_possible, num_found + num_sure),
    )


def _share(part: int, whole: int) -> float:
    """Nothing to find, and nothing found, is perfect."""
    return part / whole if whole else 1.0
