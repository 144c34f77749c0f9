"""`regard classify`: classify lines, or the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.cli.analysis import show
from regard.cli.inference.bulk import BulkOptions, check_bulk, run_job, source_file
from regard.cli.output import check_different
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, check_task, parse
from regard.errors import UserError
from regard.inference.classification import ClassificationJob
from regard.inference.loop import Output, Outputs

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
    if options.bulk.cluster is not None and options.tint:
        raise UserError("--tint prints coloured sources: leave out --cluster")
    job = ClassificationJob(
        options.run,
        source_file(options),
        Outputs(options.output, trace=options.trace),
        options.probabilities,
        options.tint,
        options.device,
    )
    faults = run_job("classify", job, options, [options.file], _print if options.tint else None)
    return 1 if faults.num_refused else 0


def _print(output: Output) -> None:
    if output.trace is not None:
        show.tinted(output.trace)
