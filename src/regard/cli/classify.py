"""`regard classify`: classify lines, or the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import show
from regard.cli.bulk import BulkOptions, ClusterRun, check_bulk, part_of
from regard.cli.lines import LineInput, check_different, encoding_of, opened
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, check_task, parse
from regard.cli.prediction_faults import PredictionFaults
from regard.cli.progress import OnFinished, counting_outputs
from regard.config import ClassificationDataConfig
from regard.errors import UserError
from regard.runs.folder import RunFolder
from regard.runtime.memory_policy import pause_collection

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.inference.parts import Items, Part
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
    a blank prediction. So does a line that cannot be read, or that has another number of features
    than the training sources: it is reported, and the exit status is 1."""

    run: Positional[Path]
    """Run folder."""
    file: Positional[str] = "-"
    """File of sources, one per line, or table with a column of sources; - is the standard input."""
    output: Path | None = None
    """File to write the predictions to (default: print them). For a table: a .csv, .tsv or .parquet
    file."""
    probabilities: bool = False
    """Print all labels with their probabilities after the prediction, the most probable first. In a
    table, each label has a column."""
    source_column: str | None = None
    """Table: column of the sources, by name or by number from 1 (default: as in training, or a
    usual name)."""
    encoding: str | None = None
    """Encoding of the file, such as cp1253 (default: recognised; the standard input is UTF-8)."""
    delimiter: str | None = None
    """Table: delimiter of columns, as characters, or tab, comma, semicolon or space (default:
    recognised)."""
    header: bool | None = None
    """Table: whether the first row has names or is an example (default: recognised)."""
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
    bulk: BulkOptions = field(default_factory=BulkOptions)


def run(arguments: list[str]) -> int:
    """Classify lines or rows in their order; return 1 if a source cannot be read."""
    options = parse(Options, arguments, "regard classify")
    check_different([options.file], options.output, options.trace)
    if options.follow and (options.tint or options.output):
        raise UserError(
            "--follow prints one line for each input line: leave out --tint and --output"
        )
    check_task(options.run, "classify")
    check_bulk(options.bulk, [options.file], options.output, follow=options.follow)
    if options.bulk.cluster is not None:
        return _run_on_cluster(options)
    classification = Classification.open(options)
    part = part_of(options.bulk, options.file, options.encoding, classification.rows)
    counted = None if options.tint else options.output
    with counting_outputs("classified", counted) as on_finished:
        faults = classification.classify(part, options, on_finished)
    classifier = classification.classifier
    faults.warn(classifier.data.max_length, classifier.source_form, classification.table)
    return 1 if faults.num_refused else 0


def _run_on_cluster(options: Options) -> int:
    """Classify chunks of the input on a Ray cluster; return 1 if a source cannot be read."""
    from regard.cli.table_rows import ROWS_AT_A_TIME, table_items
    from regard.tasks.arguments import sections_of
    from regard.tasks.classification.inputs import InputsAndTargets, source_form_of

    if options.tint:
        raise UserError("--tint prints coloured sources: leave out --cluster")
    experiment = RunFolder(options.run).experiment()
    data, _ = sections_of(experiment, ClassificationDataConfig, str(options.run))
    table = _find_table(options, data)
    encoding = ""
    if table is None:  # recognised once, because it may take longer than a chunk
        encoding = encoding_of(options.file, options.encoding)
        options = replace(options, encoding=encoding)
    outputs = options.output, options.trace
    cluster = ClusterRun("classify", options, [options.run], [options.file], outputs)
    if table is None:
        values = cluster.of_lines(ClassificationJob(options), options.file, encoding)
    else:
        values = cluster.of_items(ClassificationJob(options), table_items(table), ROWS_AT_A_TIME)
    faults = PredictionFaults.of(values)
    form = source_form_of(InputsAndTargets.load(RunFolder(options.run), data).reader, data)
    faults.warn(data.max_length, form, table)
    return 1 if faults.num_refused else 0


def _find_table(options: Options, data: ClassificationDataConfig) -> SourceTable | None:
    """Return the table that the options name, or None for lines. UserError for options that the
    input cannot have."""
    from regard.cli.table_rows import check_table_output, reject_table_options, settings_of
    from regard.data.files.source_table import SourceTable, is_table

    if options.file == "-" or not is_table(Path(options.file)):
        reject_table_options(options)
        return None
    if options.tint or options.follow:
        raise UserError(
            f"--{'tint' if options.tint else 'follow'} is for lines, but {options.file} is a "
            "table: leave it out"
        )
    check_table_output(options.output)
    return SourceTable.open(Path(options.file), settings_of(options, data))


@dataclass(frozen=True)
class ClassificationJob:
    """Classification of an input, in parts."""

    options: Options

    def open(self) -> Classification:
        """Load the model."""
        return Classification.open(self.options)


@dataclass
class Classification:
    """A model with the input that it classifies."""

    options: Options
    classifier: ClassificationModel
    table: SourceTable | None
    rows: Items[Row] | None
    """Rows of the table."""

    @classmethod
    def open(cls, options: Options) -> Classification:
        """Load the model, and recognise the format of the input."""
        with pause_collection():
            from regard.cli.table_rows import table_items
            from regard.tasks.classification.model import ClassificationModel

        classifier = ClassificationModel.load(options.run, device=options.device)
        if options.tint and not classifier.attends:
            raise UserError(
                f"--tint shows attention weights, but {options.run} has no attention: leave it "
                "out, or train with --model.head.kind attention"
            )
        table = _find_table(options, classifier.data)
        return cls(options, classifier, table, None if table is None else table_items(table))

    def run(self, part: Part, outputs: Sequence[Path | None]) -> dict[str, Any]:
        """Write the predictions and traces of a part to these files, and return its faults."""
        output, trace = outputs
        return asdict(self.classify(part, replace(self.options, output=output, trace=trace)))

    def classify(
        self, part: Part | None, options: Options, on_finished: OnFinished = lambda _: None
    ) -> PredictionFaults:
        """Classify a part of the input, or all of it, into the files of the options. `on_finished`
        takes the number of lines of each chunk."""
        if self.table is None or self.rows is None:
            return self._classify_lines(part, options, on_finished)
        from regard.cli.classify_table import TableOutput, classify_table

        return classify_table(
            self.classifier,
            self.table,
            self.rows.of(part),
            TableOutput(options.output, options.trace, options.probabilities, part),
            partial(_classified, self.classifier),
            on_finished,
        )

    def _classify_lines(
        self, part: Part | None, options: Options, on_finished: OnFinished
    ) -> PredictionFaults:
        faults = PredictionFaults()
        number = 0 if part is None else part.first_line - 1
        name = "standard input" if options.file == "-" else options.file
        with ExitStack() as files:
            source = LineInput.open(
                options.file,
                files,
                faults.add_problem,
                follow=options.follow,
                encoding=options.encoding,
                part=part,
            )
            output = opened(files, options.output) or sys.stdout
            traces = opened(files, options.trace)
            for chunk in source.available(source.lines, 1 if options.follow else LINES_AT_A_TIME):
                attention = options.tint or traces is not None
                form = self.classifier.source_form
                sources = faults.fitting(form, enumerate(chunk, number + 1))
                predictions, errors = _classified(self.classifier, sources, attention)
                for place, error in errors.items():
                    faults.add_error(f"{name}, line {number + place + 1}: {error}")
                for prediction in predictions:
                    number += 1
                    faults.add(number, prediction, self.classifier)
                    print(_line(prediction, options.probabilities), file=output)
                    if options.tint and prediction.trace is not None:
                        show.tinted(prediction.trace)
                    if traces:
                        print(prediction.trace.to_json() if prediction.trace else "{}", file=traces)
                output.flush()
                on_finished(len(predictions))
                if options.follow:
                    faults.warn(self.classifier.data.max_length, form)
                    faults.clear()
        return faults


def _classified(
    classifier: ClassificationModel, lines: list[str], attention: bool
) -> tuple[list[Prediction], dict[int, str]]:
    """Return the predictions, blank for lines that cannot be read, and the errors of these lines by
    their indices."""
    from regard.tasks.source_form import SourceError

    errors: dict[int, str] = {}
    while True:
        try:
            return classifier.classify(lines, attention=attention), errors
        except SourceError as error:
            errors[error.place] = error.reason
            lines[error.place] = ""


def _line(prediction: Prediction, probabilities: bool) -> str:
    if not probabilities:
        return prediction.text
    labels = [f"{label} {probability:.4f}" for label, probability in prediction.probabilities]
    return "\t".join([prediction.text, *labels])
