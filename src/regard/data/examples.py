"""Pairs of a source and a target, and corpora of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from regard.data.files.lines import LeftOut, LineProblem


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its target, with the line (from 1) where they stand."""

    source: str
    target: str
    line: int
    path: str = field(default="", compare=False)
    """The file of the line; those that were made have none."""

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"{self.path}, line {self.line}" if self.path else f"line {self.line}"


@dataclass(frozen=True)
class Corpus:
    """Pairs in their order, and the lines that were left out."""

    pairs: tuple[Pair, ...]
    problems: tuple[LineProblem, ...] = ()
    remarks: tuple[str, ...] = ()
    """Sentences on what else was not read as it might have been meant."""

    @classmethod
    def of(cls, found: Iterable[Pair | LineProblem], remarks: tuple[str, ...] = ()) -> Corpus:
        """From what was read of each line."""
        pairs: list[Pair] = []
        problems: list[LineProblem] = []
        for each in found:
            if isinstance(each, Pair):
                pairs.append(each)
            else:
                problems.append(each)
        return cls(tuple(pairs), tuple(problems), remarks)

    def each_line(self) -> Iterator[Pair | LineProblem]:
        """The pairs, then the problems."""
        yield from self.pairs
        yield from self.problems

    @property
    def left_out(self) -> LeftOut:
        """The problems, counted."""
        left_out = LeftOut()
        for problem in self.problems:
            left_out.add(problem)
        return left_out

    def summary(self) -> tuple[str, ...]:
        """A sentence for each file that lines were left out of, and the remarks."""
        return self.left_out.summary() + self.remarks
