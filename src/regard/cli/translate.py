"""`regard translate`: translate lines, or the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TextIO

import tyro

from regard.cli.lines import (
    MOSTLY,
    LineInput,
    UnknownWords,
    check_different,
    opened,
    warn_of_long,
    warn_of_problems,
    warn_of_refused,
)
from regard.cli.options import Device, Runs
from regard.cli.output import warn
from regard.cli.searching import SearchFields, parse
from regard.config import SearchConfig
from regard.config.checks import BeamSize
from regard.errors import UserError
from regard.memory_policy import pause_collection
from regard.names import LinkUnit

if TYPE_CHECKING:
    from regard.cli.table_rows import RowFaults, WiderTable
    from regard.data.files.lines import LineProblem
    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.tasks.generation import GeneratedText
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
    first row names the source column). A blank line has a blank translation. So does a line of more
    tokens than --max-source; then the exit status is 1. Search options default to the run's
    recipe."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    file: tyro.conf.Positional[str] = "-"
    """File of sources, one per line, or table with a column of sources; - is the standard input."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write the translations to (default: print them). For a table, a .csv or .tsv file is
    the table with a column of translations."""
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
    search: SearchFields = field(default_factory=SearchConfig)
    nbest: BeamSize = 1
    """Number of translations of each line. With more than one, a line of the output has line
    number TAB score TAB text."""
    alignments: Path | None = None
    """File to write alignment links to, one line per translation, as source-target pairs from 0
    (Pharaoh format)."""
    links: LinkUnit | None = None
    """Units that links connect (default: pieces if the tokens are characters, otherwise words)."""
    trace: Path | None = None
    """File to write the traces of the translations to, a JSON object per line."""
    ensemble: Runs = ()
    """Further runs of an ensemble: the search takes the mean of the probabilities."""
    verbose: bool = False
    """Print each step with its attention weights."""
    follow: bool = False
    """For a program that writes a line and waits for its translation: translate each line by
    itself, report its faults at once, and continue to read a file as it grows."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Translate lines in their order; return 1 if a line is too long."""
    options = parse(Options, arguments, "regard translate")
    check_different([options.file], options.output, options.alignments, options.trace)
    if options.follow and (options.nbest > 1 or options.verbose or options.output):
        raise UserError(
            "--follow prints one line for each input line: leave out --nbest, --verbose and "
            "--output"
        )
    with pause_collection():
        from regard.cli.table_rows import reject_table_options
        from regard.cli.translate_table import find_table
        from regard.tasks.translation.model import TranslationModel

    translator = TranslationModel.load(options.run, *options.ensemble, device=options.device)
    if options.alignments and not translator.attends:
        raise UserError(
            f"--alignments is {options.alignments}, but links are attention weights, and the model "
            "has no attention to the source: leave --alignments out"
        )
    faults = _Faults(options, translator)
    attention = bool(options.alignments or options.trace or options.verbose)
    table = find_table(options, translator.data)
    with ExitStack() as files:
        if table is None:
            reject_table_options(options)
            chunks = _line_chunks(options, translator, files, faults.broken.append)
        else:
            _check_table_options(options)
            chunks = _row_chunks(table)
        output = _Output.open(options, translator, table, files)
        number = 0
        for chunk in chunks:
            texts = [source.text for source in chunk]
            translations = translator.translate(
                texts, search=options.search, num_best=options.nbest, attention=attention
            )
            for source, translation in zip(chunk, translations, strict=True):
                output.add(source, number, translation)
                number += 1
                faults.add(source.line, translation)
            (output.file or sys.stdout).flush()
            if options.follow:
                faults.warn()
    output.warn()
    faults.warn()
    return 1 if faults.num_refused else 0


class _Source(NamedTuple):
    """Source with its line in the input, from 1, and its row of a table."""

    line: int
    text: str
    row: Row | None = None


def _line_chunks(
    options: Options,
    translator: TranslationModel,
    files: ExitStack,
    report: Callable[[LineProblem], None],
) -> Iterator[list[_Source]]:
    """Open the file of lines, and yield lists of lines."""
    source = LineInput.open(
        options.file, files, report, follow=options.follow, encoding=options.encoding
    )
    has_features = bool(translator.data.feature_columns)
    lines = source.lines if has_features else _warn_of_tabs(source.lines)
    number = 0
    for chunk in source.available(lines, 1 if options.follow else LINES_AT_A_TIME):
        yield [_Source(line, text) for line, text in enumerate(chunk, number + 1)]
        number += len(chunk)


def _check_table_options(options: Options) -> None:
    """Raise a UserError for options that a table cannot have."""
    from regard.cli.table_rows import check_table_output
    from regard.cli.translate_table import is_table_name

    check_table_output(options.output)
    if options.follow:
        raise UserError(f"--follow is for lines, but {options.file} is a table: leave it out")
    if is_table_name(options.output) and (options.nbest > 1 or options.verbose):
        raise UserError(
            f"{options.output} has one translation in each row: leave out --nbest and --verbose, "
            "or name a .txt file"
        )


def _row_chunks(table: SourceTable) -> Iterator[list[_Source]]:
    """Yield lists of rows of a table."""
    from regard.cli.table_rows import row_chunks

    for rows, texts in row_chunks(table):
        yield [_Source(row.line, text, row) for row, text in zip(rows, texts, strict=True)]


@dataclass
class _Output:
    """Files of translations, links and traces."""

    options: Options
    unit: LinkUnit
    file: TextIO | None
    """File of translations. None: the standard output."""
    alignments: TextIO | None
    traces: TextIO | None
    row_faults: RowFaults | None = None
    writer: WiderTable | None = None
    """Table with translations."""

    @classmethod
    def open(
        cls,
        options: Options,
        translator: TranslationModel,
        table: SourceTable | None,
        files: ExitStack,
    ) -> _Output:
        """Open the files until `files` close."""
        from regard.cli.table_rows import RowFaults, WiderTable
        from regard.cli.translate_table import is_table_name, target_name

        file = opened(files, options.output)
        alignments, traces = opened(files, options.alignments), opened(files, options.trace)
        unit = options.links or _unit(translator)
        output = cls(options, unit, file, alignments, traces)
        if table is not None:
            output.row_faults = RowFaults(table)
            if is_table_name(options.output):
                name = target_name(table, translator.data)
                output.writer = WiderTable(file, table, options.output, [name])
        return output

    def add(self, source: _Source, number: int, translation: GeneratedText) -> None:
        """Write the translation of the source with this number, from 0."""
        if self.row_faults is not None and source.row is not None:
            self.row_faults.add(source.row, source.text)
        if self.options.verbose:
            print(_steps(translation), file=self.file)
        if self.writer is not None and source.row is not None:
            self.writer.add(source.row, [translation.text])
        else:
            print(_line(translation, number, self.options.nbest), file=self.file)
        if self.alignments:
            print(_links(translation, self.unit), file=self.alignments)
        if self.traces:
            print(translation.trace.to_json() if translation.trace else "{}", file=self.traces)

    def warn(self) -> None:
        """Report rows of a table without a source or with further columns."""
        if self.row_faults is not None:
            self.row_faults.warn()


@dataclass
class _Faults:
    """Lines of the input that were not translated as they are, until `warn` reports them."""

    options: Options
    translator: TranslationModel
    broken: list[LineProblem] = field(default_factory=list)
    long: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: UnknownWords = field(default_factory=UnknownWords)
    num_refused: int = 0

    def add(self, number: int, translation: GeneratedText) -> None:
        """Add the line with this number, from 1, if its translation reports a fault."""
        if translation.is_refused:
            self.refused.append(number)
            self.num_refused += 1
            return
        if translation.is_long:
            self.long.append(number)
        if translation.unknown > MOSTLY:
            self.unknown.add(number, self.translator.unknown_in(translation.source))

    def warn(self) -> None:
        """Report the lines since the last report."""
        warn_of_problems(self.broken)
        warn_of_long(
            self.long,
            self.translator.data.max_length,
            "they are longer than all training sources, so translations may be poor",
        )
        warn_of_refused(
            self.refused,
            self.translator.max_source(self.options.search),
            "no output (search.max_source); split the lines into sentences, or raise --max-source",
        )
        self.unknown.warn()
        for lines in (self.broken, self.long, self.refused):
            lines.clear()


def _unit(translator: TranslationModel) -> LinkUnit:
    """Return the default units of links."""
    sides = translator.tokenizers.source, translator.tokenizers.target
    return "pieces" if any(side.settings.kind == "characters" for side in sides) else "words"


def _warn_of_tabs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, with a warning for the first line that has a tab."""
    warned = False
    for number, line in enumerate(lines, 1):
        if "\t" in line and not warned:
            warn(
                f"line {number} has a tab, but each line is one source: give a file of sources "
                "alone, such as the output of `cut -f 1`"
            )
            warned = True
        yield line


def _line(translation: GeneratedText, number: int, num_best: int) -> str:
    if num_best == 1:
        return translation.text
    return "\n".join(
        f"{number}\t{hypothesis.score:.4f}\t{hypothesis.text}"
        for hypothesis in (translation, *translation.alternatives)
    )


def _steps(translation: GeneratedText) -> str:
    """Return a line for each step, with the mean attention weights on the source and, of a model
    that copies, the probability to copy; then the text."""
    trace = translation.trace
    if trace is None:
        return f"Generated: {translation.text}"
    maps = [block.weights.mean(axis=(0, 1)) for block in trace.attention if block.kind == "cross"]
    lines = []
    for number, piece in enumerate(trace.target.pieces):
        weights = ", ".join(f"{weight:.3f}" for weight in maps[0][number]) if maps else ""
        copied = trace.steps[number].copied
        gate = "" if copied is None else f", copied: {copied:.3f}"
        lines.append(f"[Step {number}] {piece}, attn: [{weights}]{gate}")
    words = ", ".join(repr(piece) for piece in trace.target.pieces)
    return "\n".join([*lines, f"Generated: [{words}]"])


def _links(translation: GeneratedText, unit: LinkUnit) -> str:
    """Return alignment links in Pharaoh format; empty for a blank line."""
    from regard.metrics.alignment import map_links, pharaoh
    from regard.trace import of_kind

    trace = translation.lazy_trace
    if trace is None:
        return ""
    return pharaoh(map_links(of_kind(trace.maps, "cross"), trace.source, trace.target, unit=unit))
