"""`regard translate`: translate lines, or the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.cli.inference.bulk import BulkOptions, check_bulk, run_job, source_file
from regard.cli.output import check_different, showing_acceleration, warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, Runs, check_task
from regard.cli.parsing.searching import parse
from regard.config import SearchConfig
from regard.config.checks import BeamSize
from regard.errors import UserError, counted
from regard.inference.loop import Outputs
from regard.inference.translation import TranslationJob
from regard.names import TextUnit

HELP_EXAMPLES = (
    ("regard translate runs/letters words.txt", "one translation for each line"),
    (
        "regard translate runs/letters --beam 5 --nbest 3",
        "three translations of each line",
    ),
    ("regard translate runs/letters table.csv -o out.csv", "a table with translations"),
    ("regard translate runs/letters --follow", "for a program that waits for each line"),
)


@dataclass(frozen=True)
class Options:
    """Translate each line, or each row of a table (.csv, .jsonl, .xlsx, .parquet, and .tsv if its
    first row names the source column). A blank line has a blank translation. So has a line of more
    tokens than --max-source or with another number of features than the training sources: these are
    listed, and the exit status is 1. Search options default to the run's
    recipe."""

    run: Positional[Path]
    """Run folder."""
    file: Positional[str] = "-"
    """File of sources, one per line, or table with a column of sources; - is the standard input."""
    output: Path | None = None
    """File to write the translations to (default: print them). For a table, a .csv, .tsv or
    .parquet file is the table with a column of translations."""
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
    search: SearchConfig = field(default_factory=SearchConfig)
    prefix: str | None = None
    """Text that each translation begins with."""
    prefix_file: Path | None = None
    """File with a line for each source: the text that its translation begins with; blank for
    none."""
    exceptions: Path | None = None
    """File of pairs in any format of training, such as a dictionary. A source that is in it has its
    target there, without decoding, score and attention, unless it has a prefix."""
    nbest: BeamSize = 1
    """Number of translations of each line. With more than one, a line of the output has line
    number TAB score TAB text."""
    alignments: Path | None = None
    """File to write alignment links to, one line per translation, as source-target pairs from 0
    (Pharaoh format)."""
    links: TextUnit | None = None
    """Units that links connect: words and symbols (words), tokens (pieces), or the words between
    the spaces of the texts (spaces) (default: pieces if the tokens are characters, otherwise
    words)."""
    trace: Path | None = None
    """File to write the traces of the translations to, a JSON object per line."""
    ensemble: Runs = ()
    """Further runs of an ensemble: the search takes the mean of the probabilities."""
    join_pieces: bool = False
    """Join pieces of translations to words, for a run that was trained on texts already split into
    subwords, such as lam@@ p."""
    verbose: bool = False
    """Print each step with its attention weights, and on the standard error which modules of the
    model are accelerated."""
    follow: bool = False
    """For a program that writes a line and waits for its translation: translate each line by
    itself, report its faults at once, and continue to read a file as it grows."""
    device: Device = "auto"
    bulk: BulkOptions = field(default_factory=BulkOptions)


def run(arguments: list[str]) -> int:
    """Translate lines in their order; return 1 if a line has no output."""
    options = parse(Options, arguments, "regard translate")
    written = options.output, options.alignments, options.trace
    read = [str(path) for path in (options.file, options.prefix_file, options.exceptions) if path]
    check_different(read, *written)
    if options.prefix is not None and options.prefix_file is not None:
        raise UserError("--prefix and --prefix-file are both set: leave one of them out")
    if options.prefix and options.exceptions is not None:
        raise UserError(
            "--prefix is for all sources, so none would have its target in --exceptions: leave one "
            "of them out, or use --prefix-file"
        )
    if options.follow and (options.nbest > 1 or options.verbose or options.output):
        raise UserError(
            "--follow prints one line for each input line: leave out --nbest, --verbose and "
            "--output"
        )
    check_task(options.run, "translate")
    check_bulk(options.bulk, [options.file], options.output, follow=options.follow)
    job = TranslationJob(
        (options.run, *options.ensemble),
        source_file(options),
        Outputs(options.output, options.alignments, options.trace),
        options.search,
        options.nbest,
        options.prefix or "",
        options.prefix_file,
        options.exceptions,
        options.links,
        options.join_pieces,
        options.verbose,
        options.device,
    )
    with showing_acceleration(is_shown=options.verbose):
        faults = run_job("translate", job, options, [*read, options.search.lexicon])
    if options.exceptions is not None:
        verb = "is" if faults.num_exceptions == 1 else "are"
        sources = counted(faults.num_sources, "source")
        warn(f"{faults.num_exceptions} of {sources} {verb} from {options.exceptions}")
    return 1 if faults.num_refused else 0
