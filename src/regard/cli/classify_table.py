"""Predictions for the rows of a table, as further columns of the table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.lines import opened
from regard.cli.prediction_faults import PredictionFaults
from regard.cli.table_rows import open_wider_table, row_chunks
from regard.data.files.source_table import AddedColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.cli.progress import OnFinished
    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.inference.parts import Part
    from regard.tasks.classification.model import ClassificationModel, Prediction

NAMES = ("prediction", "probability")
"""Names of the columns that are added."""


@dataclass(frozen=True)
class TableOutput:
    """Files to write, and whether all labels have columns."""

    path: Path | None
    trace: Path | None
    probabilities: bool
    part: Part | None = None
    """Part of the rows that is written; None for all rows."""


def classify_table(
    classifier: ClassificationModel,
    table: SourceTable,
    rows: Iterator[Row],
    output: TableOutput,
    classified: Callable[[list[str], bool], tuple[list[Prediction], dict[int, str]]],
    on_finished: OnFinished,
) -> PredictionFaults:
    """Write these rows of a table with predictions, in their order; return their faults. A row with
    a blank source has a blank prediction."""
    faults, labels = PredictionFaults(), classifier.labels
    with ExitStack() as files:
        traces = opened(files, output.trace)
        added = _columns(classifier, all_labels=output.probabilities)
        writer = open_wider_table(files, table, output.path, added, output.part)
        for chunk, sources in row_chunks(table, rows):
            lines = zip((row.line for row in chunk), sources, strict=True)
            fitting = faults.fitting(classifier.source_form, lines)
            predictions, errors = classified(fitting, traces is not None)
            for place, error in errors.items():
                faults.add_error(f"{table.path}, line {chunk[place].line}: {error}")
            for row, source, prediction in zip(chunk, sources, predictions, strict=True):
                faults.add_row(table, row, source)
                faults.add(row.line, prediction, classifier)
                writer.add(row, _cells(prediction, labels, all_labels=output.probabilities))
                if traces:
                    print(prediction.trace.to_json() if prediction.trace else "{}", file=traces)
            sys.stdout.flush()
            on_finished(len(chunk))
    return faults


def _columns(classifier: ClassificationModel, *, all_labels: bool) -> list[AddedColumn]:
    """Return the added columns."""
    labels = classifier.labels
    is_number = not labels and classifier.inputs.targets.size == 1
    probabilities = [NAMES[1]] if labels else []
    if all_labels:
        probabilities += [f"{NAMES[1]} {label}" for label in labels]
    return [AddedColumn(NAMES[0], is_number), *(AddedColumn(name, True) for name in probabilities)]


def _cells(prediction: Prediction, labels: Sequence[str], *, all_labels: bool) -> list[str]:
    """Return the cells of the added columns."""
    if not labels:
        return [prediction.text]
    values = {label: f"{probability:.4f}" for label, probability in prediction.probabilities}
    cells = [prediction.text, values.get(prediction.text, "")]
    return [*cells, *(values.get(label, "") for label in labels)] if all_labels else cells
