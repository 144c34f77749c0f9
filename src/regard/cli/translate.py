"""`regard translate`: translate lines, or the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.cli.bulk import BulkOptions, ClusterRun, check_bulk, part_of
from regard.cli.lines import LineInput, check_different, encoding_of, naming_lines
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, Runs, check_task
from regard.cli.parsing.searching import parse
from regard.cli.progress import OnFinished, counting_outputs
from regard.cli.translation_faults import TranslationFaults
from regard.config import DataConfig, SearchConfig
from regard.config.checks import BeamSize
from regard.errors import UserError
from regard.names import TextUnit
from regard.runs.ensemble import all_members
from regard.runs.folder import RunFolder
from regard.runtime.memory_policy import pause_collection

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.inference.parts import Items, Part
    from regard.tasks.exceptions import Exceptions
    from regard.tasks.translation.model import TranslationModel

LINES_AT_A_TIME = 1024


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
    first row names the source column). A blank line has a blank translation. So do a line of more
    tokens than --max-source and a line with another number of features than the training sources,
    which are listed; then the exit status is 1. Search options default to the run's
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
    """Print each step with its attention weights."""
    follow: bool = False
    """For a program that writes a line and waits for its translation: translate each line by
    itself, report its faults at once, and continue to read a file as it grows."""
    device: Device = "auto"
    bulk: BulkOptions = field(default_factory=BulkOptions)


def run(arguments: list[str]) -> int:
    """Translate lines in their order; return 1 if a line has no output."""
    options = parse(Options, arguments, "regard translate")
    written = options.output, options.alignments, options.trace
    read = options.file, *filter(None, [options.prefix_file, options.exceptions])
    check_different(map(str, read), *written)
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
    if options.bulk.cluster is not None:
        return _run_on_cluster(options)
    translation = Translation.open(options)
    part = part_of(options.bulk, options.file, options.encoding, translation.rows)
    with counting_outputs("translated", options.output) as on_finished:
        faults = translation.translate(part, options, on_finished)
    translation.warn(faults)
    faults.report_exceptions(options.exceptions)
    return 1 if faults.num_refused else 0


def _run_on_cluster(options: Options) -> int:
    """Translate chunks of the input on a Ray cluster; return 1 if a line has no output."""
    from regard.cli.table_rows import ROWS_AT_A_TIME, table_items
    from regard.cli.translate_table import find_table
    from regard.tasks.arguments import sections_of
    from regard.tasks.source_form import SourceForm
    from regard.tasks.translation.encoding import Tokenizers
    from regard.tasks.translation.limits import limit_of_sources

    runs = all_members((options.run, *options.ensemble))
    experiments = [RunFolder(path).experiment() for path in runs]
    data, _ = sections_of(experiments[0], DataConfig, str(runs[0]))
    table = find_table(options, data)
    _check_table_options(options, table)
    encoding = ""
    if table is None:  # recognised once, because it may take longer than a chunk
        encoding = encoding_of(options.file, options.encoding)
        options = replace(options, encoding=encoding)
    cluster = ClusterRun(
        "translate",
        options,
        runs=runs,
        inputs=(options.file, options.search.lexicon, options.prefix_file, options.exceptions),
        outputs=(options.output, options.alignments, options.trace),
    )
    if table is None:
        values = cluster.of_lines(TranslationJob(options), options.file, encoding)
    else:
        values = cluster.of_items(TranslationJob(options), table_items(table), ROWS_AT_A_TIME)
    faults = TranslationFaults.of(values)
    limit = limit_of_sources(options.search, data, [each.model for each in experiments])
    tokenizers = Tokenizers.load(RunFolder(runs[0]))
    form = SourceForm(data.feature_columns or (), tokenizers.source)
    faults.warn(data.max_length, limit, form, table)
    faults.report_exceptions(options.exceptions)
    return 1 if faults.num_refused else 0


@dataclass(frozen=True)
class TranslationJob:
    """Translation of an input, in parts."""

    options: Options

    def open(self) -> Translation:
        """Load the model."""
        return Translation.open(self.options)


class _Source(NamedTuple):
    """Source with its line in the input, from 1, and its row of a table."""

    line: int
    text: str
    row: Row | None = None


@dataclass
class Translation:
    """A model with the input that it translates."""

    options: Options
    translator: TranslationModel
    table: SourceTable | None
    rows: Items[Row] | None
    """Rows of the table."""
    exceptions: Exceptions | None = None

    @classmethod
    def open(cls, options: Options) -> Translation:
        """Load the model, and recognise the format of the input."""
        with pause_collection():
            from regard.cli.table_rows import table_items
            from regard.cli.translate_table import find_table
            from regard.tasks.exceptions import Exceptions
            from regard.tasks.translation.model import TranslationModel

        translator = TranslationModel.load(options.run, *options.ensemble, device=options.device)
        if options.alignments and not translator.attends:
            raise UserError(
                f"--alignments is {options.alignments}, but links are attention weights, and the "
                "model has no attention to the source: leave --alignments out"
            )
        table = find_table(options, translator.data)
        _check_table_options(options, table)
        rows = None if table is None else table_items(table)
        exceptions = None
        if options.exceptions is not None:
            exceptions = Exceptions.of(options.exceptions, translator)
        return cls(options, translator, table, rows, exceptions)

    def run(self, part: Part, outputs: Sequence[Path | None]) -> dict[str, Any]:
        """Write the translations, links and traces of a part to these files, and return its
        faults."""
        output, alignments, trace = outputs
        options = replace(self.options, output=output, alignments=alignments, trace=trace)
        return asdict(self.translate(part, options))

    def translate(
        self, part: Part | None, options: Options, on_finished: OnFinished = lambda _: None
    ) -> TranslationFaults:
        """Translate a part of the input, or all of it, into the files of the options.
        `on_finished` takes the number of lines of each chunk."""
        from regard.cli.translation_output import TranslationOutput

        faults = TranslationFaults()
        attention = bool(options.alignments or options.trace or options.verbose)
        with ExitStack() as files:
            if self.table is None:
                number = 0 if part is None else part.first_line - 1
                chunks = self._line_chunks(files, faults, part)
            else:
                number = 0 if part is None else part.begin
                chunks = self._row_chunks(part)
            output = TranslationOutput.open(options, self.translator, self.table, files, part)
            prefixes = self._prefixes(files, faults)
            if attention:
                chunks = self._within_memory(chunks)
            for chunk in chunks:
                form = self.translator.source_form
                texts = faults.fitting(form, ((source.line, source.text) for source in chunk))
                prefix = self._prefix_of(prefixes, number, chunk)
                if any(prefix):
                    problems = self.translator.prefix_problems(texts, prefix, options.search)
                    texts = faults.without(problems, chunk, texts)
                with naming_lines([source.line for source in chunk]):
                    translations = self.translator.translate(
                        texts,
                        search=options.search,
                        num_best=options.nbest,
                        attention=attention,
                        prefix=prefix,
                        exceptions=self.exceptions,
                    )
                for source, translation in zip(chunk, translations, strict=True):
                    output.add(source.row, number, translation)
                    number += 1
                    faults.add(source.line, translation, self.translator)
                    if source.row is not None and self.table is not None:
                        faults.add_row(self.table, source.row, source.text)
                (output.file or sys.stdout).flush()
                on_finished(len(chunk))
                if options.follow:
                    self.warn(faults)
                    faults.clear()
            if part is None and number < len(prefixes or ()):
                raise UserError(
                    f"{options.prefix_file} has {len(prefixes or ())} lines for {number} sources: "
                    "expected a line for each"
                )
        return faults

    def _prefixes(self, files: ExitStack, faults: TranslationFaults) -> list[str] | None:
        """Read the file with the prefix of each source; None without a file."""
        if self.options.prefix_file is None:
            return None
        name = str(self.options.prefix_file)
        if name == "-":
            raise UserError("--prefix-file is -: expected a file")
        return list(LineInput.open(name, files, faults.add_problem).lines)

    def _prefix_of(
        self, prefixes: list[str] | None, number: int, chunk: Sequence[_Source]
    ) -> list[str]:
        """Return the prefix of each source of a chunk, whose first source has this number."""
        if prefixes is None:
            return [self.options.prefix or ""] * len(chunk)
        if number + len(chunk) > len(prefixes):
            raise UserError(
                f"{self.options.prefix_file} has {len(prefixes)} lines, but {self.options.file} "
                f"has at least {number + len(chunk)} sources: expected a line for each"
            )
        return prefixes[number : number + len(chunk)]

    def _within_memory(self, chunks: Iterable[list[_Source]]) -> Iterator[list[_Source]]:
        """Yield smaller chunks, whose attention fits into the memory."""
        search, num_best = self.options.search, self.options.nbest
        for chunk in chunks:
            rest = iter(chunk)
            texts = [source.text for source in chunk]
            for part in self.translator.parts(texts, search, num_best):
                yield list(islice(rest, len(part)))

    def warn(self, faults: TranslationFaults) -> None:
        """Report faults of the input."""
        translator = self.translator
        limit = translator.source_limit(self.options.search)
        faults.warn(translator.data.max_length, limit, translator.source_form, self.table)

    def _line_chunks(
        self, files: ExitStack, faults: TranslationFaults, part: Part | None
    ) -> Iterator[list[_Source]]:
        """Open the file of lines, and yield lists of lines."""
        options = self.options
        source = LineInput.open(
            options.file,
            files,
            faults.add_problem,
            follow=options.follow,
            encoding=options.encoding,
            part=part,
        )
        number = 0 if part is None else part.first_line - 1
        size = 1 if options.follow else LINES_AT_A_TIME
        for chunk in source.available(source.lines, size):
            yield [_Source(line, text) for line, text in enumerate(chunk, number + 1)]
            number += len(chunk)

    def _row_chunks(self, part: Part | None) -> Iterator[list[_Source]]:
        """Yield lists of rows of the table."""
        from regard.cli.table_rows import row_chunks

        if self.table is None or self.rows is None:
            return
        for rows, texts in row_chunks(self.table, self.rows.of(part)):
            yield [_Source(row.line, text, row) for row, text in zip(rows, texts, strict=True)]


def _check_table_options(options: Options, table: SourceTable | None) -> None:
    """Raise a UserError for options that the input cannot have: a table, or lines."""
    from regard.cli.table_rows import check_table_output, reject_table_options
    from regard.cli.translate_table import is_table_name

    if table is None:
        reject_table_options(options)
        return
    check_table_output(options.output)
    if options.follow:
        raise UserError(f"--follow is for lines, but {options.file} is a table: leave it out")
    if is_table_name(options.output) and (options.nbest > 1 or options.verbose):
        raise UserError(
            f"{options.output} has one translation in each row: leave out --nbest and --verbose, "
            "or name a .txt file"
        )
