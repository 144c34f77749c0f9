"""Faults that lines and rows have in every command that reads sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.characters import is_blank_text
from regard.cli.lines import UnknownWords, warn_of_problems
from regard.cli.output import warn
from regard.cli.table_rows import RowFaults
from regard.data.files.lines import LineProblem, numbers_of
from regard.errors import counted, listed
from regard.storage.files import shorten_name

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.tasks.source_form import SourceForm

KINDS_SHOWN = 5
"""Number of different problems of sources that are reported."""
VALUES_SHOWN = 20
"""Number of known values of features in a message."""

Faults = TypeVar("Faults", bound="SourceFaults")


@dataclass
class FormFaults:
    """Sources that do not have the form of the training sources, by the numbers of their lines."""

    unfit: dict[str, list[int]] = field(default_factory=dict)
    """Lines by the problem of their source."""
    unknown: UnknownWords = field(default_factory=UnknownWords)
    """Lines with unknown values of features, and these values."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FormFaults:
        """Return the faults of a dictionary that `asdict` returned."""
        return cls(values["unfit"], UnknownWords(**values["unknown"]))

    def add(self, number: int, source: str, form: SourceForm) -> bool:
        """Add a line if its source has another form, or unknown values of features. Return whether
        it has the form of the training sources."""
        if problem := form.problem_of_line(source):
            self.unfit.setdefault(problem, []).append(number)
            return False
        if values := form.unknown_values(source):
            self.unknown.add(number, values)
        return True

    def warn(self, form: SourceForm, outcome: str) -> None:
        """Report the lines, with the outcome of those that have another form."""
        for problem, lines in islice(self.unfit.items(), KINDS_SHOWN):
            warn(f"{_have(lines)} {problem}; {outcome}")
        rest = [number for lines in [*self.unfit.values()][KINDS_SHOWN:] for number in lines]
        if rest:
            warn(f"{_have(sorted(rest))} other problems; {outcome}")
        if self.unknown.lines:
            warn(
                f"{_have(self.unknown.lines)} values of features that are not in the vocabulary: "
                f"{', '.join(map(shorten_name, self.unknown.words))}; "
                f"known: {listed(list(form.known_values), VALUES_SHOWN)}"
            )

    def clear(self) -> None:
        """Forget the lines."""
        self.unfit.clear()
        self.unknown.clear()


def _have(lines: Sequence[int]) -> str:
    """Return line numbers as the beginning of a sentence."""
    return f"{numbers_of(lines)} {'has' if len(lines) == 1 else 'have'}"


@dataclass
class SourceFaults:
    """Faults of an input or of a part of it, by the numbers of their lines, from 1. As a dictionary
    they can be merged with those of other parts."""

    broken: list[LineProblem] = field(default_factory=list)
    """Lines whose bytes could not be read."""
    long: list[int] = field(default_factory=list)
    """Lines of sources that are longer than in training."""
    unknown: UnknownWords = field(default_factory=UnknownWords)
    form: FormFaults = field(default_factory=FormFaults)
    rows: RowFaults = field(default_factory=RowFaults)
    num_refused: int = 0
    num_sources: int = 0
    num_exceptions: int = 0

    @classmethod
    def of(cls: type[Faults], values: Mapping[str, Any]) -> Faults:
        """Return the faults of a dictionary that `asdict` returned."""
        records = {
            "broken": [LineProblem(**problem) for problem in values["broken"]],
            "unknown": UnknownWords(**values["unknown"]),
            "form": FormFaults.of(values["form"]),
            "rows": RowFaults(**values["rows"]),
        }
        return cls(**{**values, **records})

    def add_row(self, table: SourceTable, row: Row, source: str) -> None:
        """Add a row of a table if it has no source. A row that cannot be read is refused."""
        if row.note:
            self.broken.append(LineProblem(str(table.path), row.line, row.note, ""))
        before = self.rows.num_refused
        self.rows.add(table, row, source)
        self.num_refused += self.rows.num_refused - before

    def add_problem(self, problem: LineProblem) -> None:
        """Add a line that could not be read as it is, without its text."""
        self.broken.append(replace(problem, text=""))

    def fitting(self, form: SourceForm, lines: Iterable[tuple[int, str]]) -> list[str]:
        """Return the sources of numbered lines, with blank sources in place of those that do not
        have the form of the training sources."""
        sources = []
        for number, source in lines:
            is_fitting = self.form.add(number, source, form)
            self.num_refused += not is_fitting
            self.num_sources += not is_blank_text(source)
            sources.append(source if is_fitting else "")
        return sources

    def warn_of_form(self, form: SourceForm, table: SourceTable | None) -> None:
        """Report rows of a table, lines that could not be read, and lines that do not have the form
        of the training sources."""
        if table is not None:
            self.rows.warn(table)
        self.form.warn(form, "no output")
        warn_of_problems(self.broken)

    def report_exceptions(self, path: Path | None) -> None:
        """Report the number of sources whose outputs are from the file of exceptions, if there is
        one."""
        if path is not None:
            verb = "is" if self.num_exceptions == 1 else "are"
            sources = counted(self.num_sources, "source")
            warn(f"{self.num_exceptions} of {sources} {verb} from {path}")

    def clear(self) -> None:
        """Forget the faults that are reported, apart from the numbers of sources."""
        self.broken.clear()
        self.long.clear()
        self.unknown.clear()
        self.form.clear()
