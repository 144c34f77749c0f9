"""Links between words from attention weights, and their error against gold links."""

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
"""Source position and target position, from 0."""

GOLD = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")
"""Link in Pharaoh format. Numbers of more than nine digits are rejected."""


def links(
    weights: Float[np.ndarray, "target source"], threshold: float | None = None
) -> list[Link]:
    """Link every target position to the source position with its largest weight. With a threshold,
    also link it to every position whose weight is at least the threshold. A row of zeros has no
    link."""
    if not weights.size:
        return []
    rows = np.flatnonzero(weights.max(axis=1) > 0)
    pairs = {(int(weights[row].argmax()), int(row)) for row in rows}
    if threshold is not None:
        pairs |= {
            (int(source), int(target)) for target, source in np.argwhere(weights >= threshold)
        }
    return sorted(pairs)


def word_links(
    links: Iterable[Link], source_words: Sequence[int], target_words: Sequence[int]
) -> list[Link]:
    """Convert links between pieces to links between their words."""
    return sorted({(source_words[source], target_words[target]) for source, target in links})


def map_links(
    maps: Sequence[AttentionMap],
    source: trace.TokenSequence,
    target: trace.TokenSequence,
    threshold: float | None = None,
    unit: LinkUnit = "words",
) -> list[Link]:
    """Return the links between the words, or the pieces, of two sequences, from the mean of the
    maps over layers and heads. Several maps belong to the models of an ensemble. Start and end
    tokens are not linked."""
    weights = np.mean([each.weights.mean(axis=(0, 1)) for each in maps], axis=0)
    piece_links = [
        (column, row)
        for column, row in links(weights, threshold)
        if not {START_PIECE, END_PIECE} & {source.pieces[column], target.pieces[row]}
    ]
    return piece_links if unit == "pieces" else word_links(piece_links, source.words, target.words)


def trace_links(
    trace: Trace,
    kind: AttentionKind = "cross",
    threshold: float | None = None,
    unit: LinkUnit = "words",
) -> list[Link]:
    """Return the links between the words, or the pieces, of a trace, as `map_links` does.
    ValueError for a map whose columns are grid cells or vectors."""
    source = trace.columns(kind)
    if source is None:
        raise ValueError(f"links connect {unit}, but the columns of {kind!r} maps have none")
    return map_links(trace.maps(kind), source, trace.rows(kind), threshold, unit)


def pharaoh(links: Iterable[Link]) -> str:
    """Return links as a line in Pharaoh format, such as "0-0 1-2": source, then target, from 0."""
    return " ".join(f"{source}-{target}" for source, target in links)


@dataclass(frozen=True)
class GoldLinks:
    """Links that people annotated for one pair. Sure links are a subset of possible links."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_pharaoh(line: str, first: int = 0) -> GoldLinks:
    """Read a line of gold links: "1-2" is a sure link, "1p2" and "1?2" are possible links. `first`
    is the number of the first word. UserError for anything else."""
    sure, possible = set(), set()
    for piece in line.split():
        match = GOLD.fullmatch(piece)
        if not match or min(int(match[1]), int(match[3])) < first:
            raise UserError(
                f"{piece[:60]!r} is not a link: expected source-target such as 0-2 (sure), 0p2 or "
                f"0?2 (possible), numbered from {first}"
            )
        link = int(match[1]) - first, int(match[3]) - first
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """Precision, recall and alignment error rate, from 0 to 1. A lower error rate is better."""

    precision: float
    recall: float
    error_rate: float


def score_alignments(
    predicted: Sequence[AbstractSet[Link]], gold: Sequence[GoldLinks]
) -> AlignmentScore:
    """Return the alignment error rate (Och & Ney 2003, section 6.1) over the whole corpus. With
    predicted links A, sure links S and possible links P,

        precision = |A & P| / |A|    recall = |A & S| / |S|
        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
    """
    if len(predicted) != len(gold):
        raise ValueError(
            f"gold must hold links for every pair: got {len(gold)} for {len(predicted)} pairs"
        )
    pairs = list(zip(predicted, gold, strict=True))
    num_predicted = sum(map(len, predicted))
    num_sure = sum(len(links.sure) for links in gold)
    in_sure = sum(len(links & targets.sure) for links, targets in pairs)
    in_possible = sum(len(links & targets.possible) for links, targets in pairs)
    return AlignmentScore(
        precision=_ratio(in_possible, num_predicted),
        recall=_ratio(in_sure, num_sure),
        error_rate=1 - _ratio(in_sure + in_possible, num_predicted + num_sure),
    )


def _ratio(part: int, whole: int) -> float:
    """Return part / whole; 1 if there is nothing to link."""
    return part / whole if whole else 1.0
