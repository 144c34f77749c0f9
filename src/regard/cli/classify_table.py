"""Predictions for the rows of a table, as further columns of the table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.lines import opened
from regard.cli.output import warn
from regard.cli.prediction_faults import PredictionFaults
from regard.cli.table_rows import RowFaults, WiderTable, row_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.data.files.source_table import SourceTable
    from regard.tasks.classification.model import ClassificationModel, Prediction

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
    faults, labels, num_refused = PredictionFaults(classifier), classifier.labels, 0
    row_faults = RowFaults(table)
    with ExitStack() as files:
        file = opened(files, output.path)
        traces = opened(files, output.trace)
        names = _names(labels, all_labels=output.probabilities)
        writer = WiderTable(file, table, output.path, names)
        for rows, sources in row_chunks(table):
            predictions, errors = classified(sources, traces is not None)
            for place, error in errors.items():
                warn(f"{table.path}, line {rows[place].line}: {error}")
            num_refused += len(errors)
            for row, source, prediction in zip(rows, sources, predictions, strict=True):
                row_faults.add(row, source)
                faults.add(row.line, prediction)
                writer.add(row, _cells(prediction, labels, all_labels=output.probabilities))
                if traces:
                    print(prediction.trace.to_json() if prediction.trace else "{}", file=traces)
            (file or sys.stdout).flush()
    row_faults.warn()
    faults.warn()
    return 1 if num_refused else 0


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
