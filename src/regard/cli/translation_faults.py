"""Lines and rows that were not translated as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regard.cli.lines import (
    MOSTLY,
    UnknownWords,
    warn_of_long,
    warn_of_problems,
    warn_of_refused,
)
from regard.cli.output import warn
from regard.cli.table_rows import RowFaults
from regard.data.files.lines import LineProblem

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel


@dataclass
class TranslationFaults:
    """Faults of an input or of a part of it, by the numbers of their lines, from 1. As a dictionary
    they can be merged with those of other parts."""

    broken: list[LineProblem] = field(default_factory=list)
    tabs: list[int] = field(default_factory=list)
    """First line of each part that has a tab."""
    long: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: UnknownWords = field(default_factory=UnknownWords)
    rows: RowFaults = field(default_factory=RowFaults)
    num_refused: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TranslationFaults:
        """Return the faults of a dictionary that `asdict` returned."""
        records = {
            "broken": [LineProblem(**problem) for problem in values["broken"]],
            "unknown": UnknownWords(**values["unknown"]),
            "rows": RowFaults(**values["rows"]),
        }
        return cls(**{**values, **records})

    def add_problem(self, problem: LineProblem) -> None:
        """Add a line that could not be read as it is, without its text."""
        self.broken.append(replace(problem, text=""))

    def add(self, number: int, translation: GeneratedText, translator: TranslationModel) -> None:
        """Add the line with this number, from 1, if its translation reports a fault."""
        if translation.is_refused:
            self.refused.append(number)
            self.num_refused += 1
            return
        if translation.is_long:
            self.long.append(number)
        if translation.unknown > MOSTLY:
            self.unknown.add(number, translator.unknown_in(translation.source))

    def noting_tabs(self, lines: Iterable[str], first: int) -> Iterator[str]:
        """Yield lines, the first of which has this number, and note the first one with a tab."""
        noted = False
        for number, line in enumerate(lines, first):
            if "\t" in line and not noted:
                self.tabs.append(number)
                noted = True
            yield line

    def warn(self, max_length: int, max_source: int, table: SourceTable | None) -> None:
        """Report the faults. Sources have at most `max_length` tokens in training, and at most
        `max_source` in decoding."""
        if table is not None:
            self.rows.warn(table)
        if self.tabs:
            warn(
                f"line {self.tabs[0]} has a tab, but each line is one source: give a file of "
                "sources alone, such as the output of `cut -f 1`"
            )
        warn_of_problems(self.broken)
        warn_of_long(
            self.long,
            max_length,
            "they are longer than all training sources, so translations may be poor",
        )
        warn_of_refused(
            self.refused,
            max_source,
            "no output (search.max_source); split the lines into sentences, or raise --max-source",
        )
        self.unknown.warn()

    def clear(self) -> None:
        """Forget the faults that are reported, apart from the number of refused lines."""
        for lines in (self.broken, self.tabs, self.long, self.refused):
            lines.clear()
        self.unknown.clear()
