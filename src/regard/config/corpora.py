"""Corpora of a configuration: files of pairs, with weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.config.checks import parse_weight
from regard.errors import UserError

EXPECTED = "expected FILE, FILE:WEIGHT, or SOURCES,TARGETS:WEIGHT, such as news.tsv.gz:0.5"
MAX_WEIGHT = 1000.0


@dataclass(frozen=True)
class CorpusPaths:
    """File of a corpus, or several whose names match a pattern."""

    path: Path
    """File of pairs, or of sources."""
    target_path: Path | None = None
    weight: float = 1.0
    """Number of times that each pair occurs in an epoch."""

    @classmethod
    def parse(cls, text: str) -> CorpusPaths:
        """Return the corpus of an entry of `data.mix`. UserError for a wrong entry."""
        names, colon, number = text.rpartition(":")
        weight = _weight(text, number) if colon else 1.0
        source, comma, target = (names if colon else text).partition(",")
        if not source or (comma and not target) or "," in target:
            raise UserError(f"data.mix has {text!r}: {EXPECTED}")
        return cls(Path(source), Path(target) if comma else None, weight)


def have_equal_weights(mix: object, other: object) -> bool:
    """Return whether two values of `data.mix` differ in paths only."""
    if not isinstance(mix, tuple) or not isinstance(other, tuple):
        return False
    weights, others = ([CorpusPaths.parse(text).weight for text in each] for each in (mix, other))
    return weights == others


def with_paths(entry: str, change: Callable[[Path], Path]) -> str:
    """Return an entry of `data.mix` with changed paths."""
    corpus = CorpusPaths.parse(entry)
    paths = (path for path in (corpus.path, corpus.target_path) if path is not None)
    _, colon, weight = entry.rpartition(":")
    return ",".join(str(change(path)) for path in paths) + (colon and f":{weight}")


def is_pattern(path: Path) -> bool:
    """Return whether a path has characters of patterns of file names."""
    return re.search(r"[*?\[]", str(path)) is not None


def _weight(text: str, number: str) -> float:
    weight = parse_weight(number, MAX_WEIGHT)
    if weight is None:
        raise UserError(
            f"data.mix has {text!r}, whose weight is {number!r}: {EXPECTED}, with a weight above 0 "
            f"and up to {MAX_WEIGHT:,.0f}"
        )
    return weight
