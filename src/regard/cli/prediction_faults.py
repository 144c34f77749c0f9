"""Sources that a classifier did not read as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regard.cli.lines import MOSTLY, warn_of_long
from regard.cli.output import warn
from regard.cli.source_faults import SourceFaults

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.tasks.classification.model import ClassificationModel, Prediction
    from regard.tasks.source_form import SourceForm


@dataclass
class PredictionFaults(SourceFaults):
    """Sources that were not classified as they are. As a dictionary they can be merged with those
    of other parts of an input."""

    errors: list[str] = field(default_factory=list)
    """Messages about sources that cannot be read."""

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

    def warn(self, max_length: int, form: SourceForm, table: SourceTable | None = None) -> None:
        """Report the faults. Sources have at most `max_length` tokens."""
        for error in self.errors:
            warn(error)
        self.warn_of_form(form, table)
        warn_of_long(self.long, max_length, "the tokens after that were not read")
        self.unknown.warn()

    def clear(self) -> None:
        super().clear()
        self.errors.clear()
