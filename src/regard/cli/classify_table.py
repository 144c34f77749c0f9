"""Predictions for the rows of a table, as further columns of the table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.lines import MOSTLY, UnknownWords, opened, warn_of_long
from regard.cli.output import warn
from regard.data.files.lines import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.tasks.classification.model import ClassificationModel, Prediction

ROWS_AT_A_TIME = 512
NAMES = ("prediction", "probability")
"""Names of the columns that are added."""


@dataclass(frozen=True)
class TableOutput:
    """Files to write, and whether all labels have columns."""

    path: Path | None
    trace: Path | None
    probabilities: bool


def classify_table(
    classifier: ClassificationModel,
    table: SourceTable,
    output: TableOutput,
    classified: Callable[[list[str], bool], tuple[list[Prediction], dict[int, str]]],
) -> int:
    """Write the table with predictions, every row in its order; return 1 if a source cannot be
    read. A row with a blank source has a blank prediction."""
    faults, labels, num_refused = _Faults(classifier, table), classifier.labels, 0
    with ExitStack() as files:
        file = opened(files, output.path) or sys.stdout
        traces = opened(files, output.trace)
        writer = csv.writer(file, delimiter=_delimiter(table, output.path), lineterminator="\n")
        if table.header is not None:
            names = _names(labels, all_labels=output.probabilities)
            writer.writerow([*table.header, *names])
        rows = table.rows()
        while chunk := list(islice(rows, ROWS_AT_A_TIME)):
            sources = [table.source_of(row) for row in chunk]
            faults.num_blank += sources.count("")
            predictions, errors = classified(sources, traces is not None)
            for place, error in errors.items():
                warn(f"{table.path}, line {chunk[place].line}: {error}")
            num_refused += len(errors)
            for row, prediction in zip(chunk, predictions, strict=True):
                faults.add(row, prediction)
                padding = [""] * (table.width - len(row.cells))
                cells = _cells(prediction, labels, all_labels=output.probabilities)
                writer.writerow([*row.cells, *padding, *cells])
                if traces:
                    print(prediction.trace.to_json() if prediction.trace else "{}", file=traces)
            file.flush()
    faults.warn()
    return 1 if num_refused else 0


@dataclass
class _Faults:
    """Rows that are reported after the last one."""

    classifier: ClassificationModel
    table: SourceTable
    long: list[int] = field(default_factory=list)
    """Lines of rows with sources that are longer than in training."""
    wide: list[int] = field(default_factory=list)
    """Lines of rows with more cells than the first row."""
    unknown: UnknownWords = field(default_factory=UnknownWords)
    num_blank: int = 0

    def add(self, row: Row, prediction: Prediction) -> None:
        """Add a row if it has more cells than the first row, or if its prediction reports a
        fault."""
        if prediction.is_long:
            self.long.append(row.line)
        if prediction.unknown > MOSTLY:
            self.unknown.add(row.line, self.classifier.unknown_in(prediction.source))
        if len(row.cells) > self.table.width:
            self.wide.append(row.line)

    def warn(self) -> None:
        """Report the rows."""
        if titles := self.table.titles:
            warn(titles)
        max_length = self.classifier.data.max_length
        warn_of_long(self.long, max_length, "the tokens after that were not read")
        self.unknown.warn()
        if self.wide:
            warn(
                f"{self.table.path}: {_rows(len(self.wide))} more than {self.table.width} columns "
                f"({numbers_of(self.wide)}): their predictions come after these"
            )
        if self.num_blank:
            warn(f"{self.table.path}: {_rows(self.num_blank)} no source")


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number} rows have"


def _names(labels: Sequence[str], *, all_labels: bool) -> list[str]:
    """Return the names of the added columns."""
    names = list(NAMES if labels else NAMES[:1])
    return [*names, *(f"probability {label}" for label in labels)] if all_labels else names


def _cells(prediction: Prediction, labels: Sequence[str], *, all_labels: bool) -> list[str]:
    """Return the cells of the added columns."""
    if not labels:
        return [prediction.text]
    values = {label: f"{probability:.4f}" for label, probability in prediction.probabilities}
    cells = [prediction.text, values.get(prediction.text, "")]
    return [*cells, *(values.get(label, "") for label in labels)] if all_labels else cells


def _delimiter(table: SourceTable, output: Path | None) -> str:
    """Return the delimiter of the output: tabs for .tsv, otherwise that of the table."""
    if output is not None and output.suffix.lower() == ".tsv":
        return "\t"
    is_csv = output is not None and output.suffix.lower() == ".csv"
    own = table.form.delimiter or ","
    return "," if is_csv and own == "\t" else own
