"""`regard classify`: classify lines, or the rows of a table."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from regard.cli import show
from regard.cli.lines import (
    LineInput,
    check_different,
    opened,
    warn_of_problems,
)
from regard.cli.options import Device, parse
from regard.cli.output import warn
from regard.cli.prediction_faults import PredictionFaults
from regard.errors import UserError
from regard.memory_policy import pause_collection

if TYPE_CHECKING:
    from regard.data.files.lines import LineProblem
    from regard.tasks.classification.model import ClassificationModel, Prediction

LINES_AT_A_TIME = 512


HELP_EXAMPLES = (
    ("regard classify runs/labels texts.txt", "one label for each line"),
    ("regard classify runs/labels --probabilities", "all labels with their probabilities"),
    ("regard classify runs/labels texts.txt --tint", "the texts too, coloured by attention"),
    ("regard classify runs/labels table.csv -o out.csv", "a table with predictions"),
)


@dataclass(frozen=True)
class Options:
    """Predict a label or numbers for each line, or for each row of a table (.csv, .tsv, .jsonl,
    .xlsx, .parquet), which is written with the columns prediction and probability. A blank line has
    a blank prediction. So does a line that cannot be read: it is reported, and the exit status is
    1."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    file: tyro.conf.Positional[str] = "-"
    """File of sources, one per line, or table with a column of sources; - is the standard input."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write the predictions to (default: print them)."""
    probabilities: bool = False
    """Print all labels with their probabilities after the prediction, the most probable first. In a
    table, each label has a column."""
    source_column: str | None = None
    """Table: column of the sources, by name or by number from 1 (default: as in training, or a
    usual name)."""
    encoding: str | None = None
    """Encoding of the file, such as cp1253 (default: recognised; the standard input is UTF-8)."""
    delimiter: str | None = None
    """Table: delimiter of columns, a character or tab, comma, semicolon or space (default:
    recognised)."""
    header: bool | None = None
    """Table: True if the first row has names, False if it is an example (default: recognised)."""
    sheet: str | None = None
    """Table: sheet of a workbook (default: the first with a table)."""
    tint: bool = False
    """Print the source too, coloured by its attention weights."""
    trace: Path | None = None
    """File to write the traces of the predictions to, a JSON object per line."""
    follow: bool = False
    """For a program that writes a line and waits for its prediction: classify each line by itself,
    report its faults at once, and continue to read a file as it grows."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Classify lines or rows in their order; return 1 if a source should be numbers and is not."""
    options = parse(Options, arguments, "regard classify")
    check_different([options.file], options.output, options.trace)
    if options.follow and (options.tint or options.output):
        raise UserError(
            "--follow prints one line for each input line: leave out --tint and --output"
        )
    with pause_collection():
        from regard.cli.table_rows import reject_table_options
        from regard.data.files.source_table import is_table
        from regard.tasks.classification.model import ClassificationModel

    classifier = ClassificationModel.load(options.run, device=options.device)
    if options.tint and not classifier.attends:
        raise UserError(
            f"--tint shows attention weights, but {options.run} has no attention: leave it out, or "
            "train with --model.head.kind attention"
        )
    if options.file != "-" and is_table(Path(options.file)):
        return _table(classifier, options)
    reject_table_options(options)
    return _lines(classifier, options)


def _lines(classifier: ClassificationModel, options: Options) -> int:
    """Print a prediction for each line; return 1 if a line should be numbers and is not."""
    faults = _Faults(classifier)
    number = num_refused = 0
    name = "standard input" if options.file == "-" else options.file
    with ExitStack() as files:
        source = LineInput.open(
            options.file,
            files,
            faults.broken.append,
            follow=options.follow,
            encoding=options.encoding,
        )
        output = opened(files, options.output) or sys.stdout
        traces = opened(files, options.trace)
        for chunk in source.available(source.lines, 1 if options.follow else LINES_AT_A_TIME):
            attention = options.tint or traces is not None
            predictions, errors = _classified(classifier, chunk, attention)
            for place, error in errors.items():
                warn(f"{name}, line {number + place + 1}: {error}")
            num_refused += len(errors)
            for prediction in predictions:
                number += 1
                faults.add(number, prediction)
                print(_line(prediction, options.probabilities), file=output)
                if options.tint and prediction.trace is not None:
                    show.tinted(prediction.trace)
                if traces:
                    print(prediction.trace.to_json() if prediction.trace else "{}", file=traces)
            output.flush()
            if options.follow:
                faults.warn()
    faults.warn()
    return 1 if num_refused else 0


@dataclass
class _Faults(PredictionFaults):
    """Sources, and lines whose bytes could not be read."""

    broken: list[LineProblem] = field(default_factory=list)

    def warn(self) -> None:
        """Report the lines since the last report."""
        warn_of_problems(self.broken)
        self.broken.clear()
        super().warn()


def _table(classifier: ClassificationModel, options: Options) -> int:
    """Write a table with predictions; return 1 if a source should be numbers and is not."""
    from regard.cli.classify_table import TableOutput, classify_table
    from regard.cli.table_rows import check_table_output, settings_of
    from regard.data.files.source_table import SourceTable

    if options.tint or options.follow:
        raise UserError(
            f"--{'tint' if options.tint else 'follow'} is for lines, but {options.file} is a "
            "table: leave it out"
        )
    check_table_output(options.output)
    settings = settings_of(options, classifier.data)
    table = SourceTable.open(Path(options.file), settings)
    output = TableOutput(options.output, options.trace, options.probabilities)
    return classify_table(classifier, table, output, partial(_classified, classifier))


def _classified(
    classifier: ClassificationModel, lines: list[str], attention: bool
) -> tuple[list[Prediction], dict[int, str]]:
    """Return the predictions, blank for lines that cannot be read, and the errors of these lines by
    their indices."""
    from regard.tasks.classification.inputs import SourceError

    lines = list(lines)
    errors: dict[int, str] = {}
    while True:
        try:
            return classifier.classify(lines, attention=attention), errors
        except SourceError as error:
            errors[error.place] = str(error)
            lines[error.place] = ""


def _line(prediction: Prediction, probabilities: bool) -> str:
    if not probabilities:
        return prediction.text
    labels = [f"{label} {probability:.4f}" for label, probability in prediction.probabilities]
    return "\t".join([prediction.text, *labels])
