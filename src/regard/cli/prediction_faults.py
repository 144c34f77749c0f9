"""Sources that a classifier did not read as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regard.cli.lines import MOSTLY, UnknownWords, warn_of_long

if TYPE_CHECKING:
    from regard.tasks.classification.model import ClassificationModel, Prediction


@dataclass
class PredictionFaults:
    """Sources that were not classified as they are, until `warn` reports them."""

    classifier: ClassificationModel
    long: list[int] = field(default_factory=list)
    """Lines of sources that are longer than in training."""
    unknown: UnknownWords = field(default_factory=UnknownWords)

    def add(self, line: int, prediction: Prediction) -> None:
        """Add the source at this line, from 1, if its prediction reports a fault."""
        if prediction.is_long:
            self.long.append(line)
        if prediction.unknown > MOSTLY:
            self.unknown.add(line, self.classifier.unknown_in(prediction.source))

    def warn(self) -> None:
        """Report the sources since the last report."""
        max_length = self.classifier.data.max_length
        warn_of_long(self.long, max_length, "the tokens after that were not read")
        self.unknown.warn()
        self.long.clear()
