"""Sources that a classifier did not read as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regard.cli.lines import MOSTLY, UnknownWords, warn_of_long, warn_of_problems
from regard.cli.output import warn
from regard.cli.table_rows import RowFaults
from regard.data.files.lines import LineProblem

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.tasks.classification.model import ClassificationModel, Prediction


@dataclass
class PredictionFaults:
    """Sources that were not classified as they are. As a dictionary they can be merged with those
    of other parts of an input."""

    broken: list[LineProblem] = field(default_factory=list)
    """Lines whose bytes could not be read."""
    errors: list[str] = field(default_factory=list)
    """Messages about sources that cannot be read."""
    long: list[int] = field(default_factory=list)
    """Lines of sources that are longer than in training."""
    unknown: UnknownWords = field(default_factory=UnknownWords)
    rows: RowFaults = field(default_factory=RowFaults)
    num_refused: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> PredictionFaults:
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

    def add_error(self, error: str) -> None:
        """Add the message about a source that cannot be read."""
        self.errors.append(error)
        self.num_refused += 1

    def add(self, line: int, prediction: Prediction, classifier: ClassificationModel) -> None:
        """Add the source at this line, from 1, if its prediction reports a fault."""
        if prediction.is_long:
            self.long.append(line)
        if prediction.unknown > MOSTLY:
            self.unknown.add(line, classifier.unknown_in(prediction.source))

    def warn(self, max_length: int, table: SourceTable | None = None) -> None:
        """Report the faults. Sources have at most `max_length` tokens."""
        for error in self.errors:
            warn(error)
        if table is not None:
            self.rows.warn(table)
        warn_of_problems(self.broken)
        warn_of_long(self.long, max_length, "the tokens after that were not read")
        self.unknown.warn()

    def clear(self) -> None:
        """Forget the faults that are reported, apart from the number of refused sources."""
        self.broken.clear()
        self.errors.clear()
        self.long.clear()
        self.unknown.clear()
