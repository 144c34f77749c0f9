"""Faults that lines and rows have in every command that reads sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from regard.cli.lines import UnknownWords
from regard.cli.table_rows import RowFaults
from regard.data.files.lines import LineProblem

Faults = TypeVar("Faults", bound="SourceFaults")


@dataclass
class SourceFaults:
    """Faults of an input or of a part of it, by the numbers of their lines, from 1. As a dictionary
    they can be merged with those of other parts."""

    broken: list[LineProblem] = field(default_factory=list)
    """Lines whose bytes could not be read."""
    long: list[int] = field(default_factory=list)
    """Lines of sources that are longer than in training."""
    unknown: UnknownWords = field(default_factory=UnknownWords)
    rows: RowFaults = field(default_factory=RowFaults)
    num_refused: int = 0

    @classmethod
    def of(cls: type[Faults], values: Mapping[str, Any]) -> Faults:
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

    def clear(self) -> None:
        """Forget the faults that are reported, apart from the number of refused sources."""
        self.broken.clear()
        self.long.clear()
        self.unknown.clear()
