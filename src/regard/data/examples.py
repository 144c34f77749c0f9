"""Pairs of a source and a target, and corpora of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from regard.data.files.lines import LeftOut, LineProblem
from regard.data.files.tables import column_name
from regard.data.invisible import InvisibleCharacters
from regard.data.units import compare_units


@dataclass(frozen=True, slots=True)
class Pair:
    """Source and target, with the number (from 1) of their line."""

    source: str
    target: str
    line: int
    path: str = field(default="", compare=False)
    """File of the line; empty for generated pairs."""

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.path}, line {self.line}" if self.path else f"line {self.line}"


@dataclass(frozen=True)
class ReadColumns:
    """Columns of a table that were read, by name or by number from 1."""

    source: str
    targets: tuple[str, ...]

    @classmethod
    def of_table(
        cls, header: Sequence[str] | None, num_columns: int, source: int, targets: Sequence[int]
    ) -> ReadColumns | None:
        """Return the columns with these numbers, from 0. None for a file of two columns without a
        header: it has no other."""
        if header is None and num_columns <= 2:
            return None
        return cls(
            column_name(header, source), tuple(column_name(header, number) for number in targets)
        )


@dataclass(frozen=True)
class Corpus:
    """Pairs in their order, and the lines that were dropped."""

    pairs: tuple[Pair, ...]
    problems: tuple[LineProblem, ...] = ()
    remarks: tuple[str, ...] = ()
    """Sentences about other content that was not read as intended."""
    columns: ReadColumns | None = None
    """Columns of a table that were read; None for a file without a choice of columns."""
    units: tuple[str, ...] | None = None
    """Unit of the numbers in each target column, blank for none; None for other targets."""

    @classmethod
    def of(
        cls,
        items: Iterable[Pair | LineProblem],
        remarks: tuple[str, ...] = (),
        columns: ReadColumns | None = None,
    ) -> Corpus:
        """Return a corpus of the pairs and the line problems among the items."""
        pairs: list[Pair] = []
        problems: list[LineProblem] = []
        for item in items:
            if isinstance(item, Pair):
                pairs.append(item)
            else:
                problems.append(item)
        return cls(tuple(pairs), tuple(problems), remarks, columns)

    def with_units_compared(self, place: str, expected: tuple[str, ...] | None) -> Corpus:
        """Return the corpus with a remark if the numbers of its file `place` have another unit than
        those of the training. UserError if both have one."""
        return replace(self, remarks=self.remarks + compare_units(place, self.units, expected))

    def each_line(self) -> Iterator[Pair | LineProblem]:
        """Yield the pairs, then the problems."""
        yield from self.pairs
        yield from self.problems

    @property
    def left_out(self) -> LeftOut:
        """Numbers of dropped lines by file and reason."""
        left_out = LeftOut()
        for problem in self.problems:
            left_out.add(problem)
        return left_out

    def summary(self) -> tuple[str, ...]:
        """Return a sentence for each file with dropped lines, the remarks, and a sentence for each
        file with invisible characters."""
        invisible = InvisibleCharacters.of(self.pairs)
        return self.left_out.summary() + self.remarks + invisible.summary()
