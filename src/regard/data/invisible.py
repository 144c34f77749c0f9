"""Invisible characters in pairs: their numbers and lines, by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol, runtime_checkable

from regard.characters import has_invisible, invisible_in, name_of
from regard.data.files.lines import LineNumbers
from regard.errors import listed

SHOWN = 5
"""Number of characters that a message names."""


@runtime_checkable
class PairOfLine(Protocol):
    """Pair of texts with its place in a file."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def path(self) -> str: ...


@dataclass
class InvisibleCharacters:
    """Pairs with invisible characters, by file."""

    num_pairs: dict[str, int] = field(default_factory=dict)
    """Number of all pairs of each file."""
    lines: dict[str, LineNumbers] = field(default_factory=dict)
    """Lines of pairs with such characters."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of pairs with each of these characters."""

    @classmethod
    def of(cls, pairs: Sequence[PairOfLine]) -> InvisibleCharacters:
        """Count the characters of these pairs."""
        result = cls()
        result.add(pairs)
        return result

    def add(self, pairs: Sequence[PairOfLine]) -> None:
        """Count the characters of further pairs."""
        for path, number in Counter(map(attrgetter("path"), pairs)).items():
            self.num_pairs[path] = self.num_pairs.get(path, 0) + number
        # One test of the joined texts is far faster than a test of each.
        sides = ("".join(map(attrgetter(side), pairs)) for side in ("source", "target"))
        if not any(map(has_invisible, sides)):
            return
        for pair in pairs:
            characters = {*invisible_in(pair.source), *invisible_in(pair.target)}
            if characters:
                self.lines.setdefault(pair.path, LineNumbers()).add(pair.line)
                counts = self.counts.setdefault(pair.path, {})
                counts |= {name: counts.get(name, 0) + 1 for name in characters}

    def summary(self) -> tuple[str, ...]:
        """Return a sentence for each file with such pairs."""
        return tuple(map(self._sentence, self.lines))

    def _sentence(self, path: str) -> str:
        counts = sorted(self.counts[path].items(), key=lambda item: (-item[1], item[0]))
        shown = listed([f"{name_of(name)} in {count:,}" for name, count in counts], SHOWN)
        lines, total = self.lines[path], self.num_pairs[path]
        return (
            f"invisible characters in {lines.count:,} of {total:,} pairs of {path} ({lines}): "
            f"{shown}; models read them: remove them unless they are meant"
        )
