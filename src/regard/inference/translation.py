"""Translation of lines, or of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import DataConfig, SearchConfig
from regard.data.files.tables import find_column, suffix_of
from regard.data.text.subword_marks import joined, marks_in
from regard.errors import UserError
from regard.inference.faults import Limits
from regard.inference.lines import STREAM, LineInput, LineSources, Source, encoding_of
from regard.inference.loop import Output, Outputs, Run, naming_lines, within_memory
from regard.inference.parts import Items
from regard.inference.tables import SourceFile, is_table_name, lines_of, rows_of
from regard.names import TextUnit
from regard.runs.folder import RunFolder
from regard.runtime.memory_policy import pause_collection

if TYPE_CHECKING:
    from regard.data.files.source_table import AddedColumn, SourceTable
    from regard.tasks.exceptions import Exceptions
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel

LINES_AT_A_TIME = 1024
NAME = "prediction"
"""Name of the added column if the run has no name of its targets."""


def data_of(run: Path) -> DataConfig:
    """Return section `data` of a run. UserError for a run of another task than translate."""
    from regard.tasks.arguments import sections_of

    return sections_of(RunFolder(run).experiment(), DataConfig, str(run))[0]


def known_features(run: Path, data: DataConfig) -> list[str]:
    """Return the values of features in the training of a run."""
    from regard.tasks.source_form import SourceForm
    from regard.tasks.translation.encoding import Tokenizers

    source = Tokenizers.load(RunFolder(run)).source
    return list(SourceForm(data.feature_columns or (), source).known_values)


@dataclass(frozen=True)
class TranslationJob:
    """Translation of a file."""

    runs: tuple[Path, ...]
    """Run folder, or the members of an ensemble."""
    file: SourceFile
    outputs: Outputs
    search: SearchConfig
    num_best: int = 1
    prefix: str = ""
    """Text that each translation begins with."""
    prefix_file: Path | None = None
    """File with a line for each source: the text that its translation begins with."""
    exceptions: Path | None = None
    """File of pairs whose sources are not decoded."""
    links: TextUnit | None = None
    """Units that alignment links connect; None for those of the tokens."""
    join_pieces: bool = False
    """Whether pieces of words in the texts are joined."""
    verbose: bool = False
    """Whether each step is written before its text."""
    device: str = "auto"

    def limits(self) -> Limits:
        from regard.tasks.translation.limits import limit_of_sources

        models = [RunFolder(path).experiment().model for path in self.runs]
        limit = limit_of_sources(self.search, self.data, models)
        return Limits(
            known_features(self.runs[0], self.data),
            longest=self.data.max_length,
            long="they are longer than all training sources, so translations may be poor",
            most=limit.tokens,
            refused=f"no output ({limit.field}); split the lines into sentences, or {limit.remedy}",
        )

    @cached_property
    def data(self) -> DataConfig:
        """Section `data` of the first run."""
        return data_of(self.runs[0])

    def input(self, warn: Callable[[str], None]) -> LineSources | Items[Source]:
        """Return the rows of a table, or lines. A .tsv file has lines unless an option is about
        tables or the first row names the column of the sources."""
        file, output = self.file, self.outputs.texts
        if not self._is_table():
            return lines_of(file, output, LINES_AT_A_TIME, warn)
        rows = rows_of(file, self.data, output, _usual_names())
        if is_table_name(output) and (self.num_best > 1 or self.verbose):
            raise UserError(
                f"{output} has one translation in each row: leave out --nbest and --verbose, "
                "or name a .txt file"
            )
        return rows

    def open(self, warn: Callable[[str], None]) -> Translation:
        with pause_collection():
            from regard.tasks.exceptions import Exceptions
            from regard.tasks.translation.model import TranslationModel

        model = TranslationModel.load(*self.runs, device=self.device)
        if self.outputs.alignments and not model.attends:
            raise UserError(
                f"--alignments is {self.outputs.alignments}, but links are attention weights, and "
                "the model has no attention to the source: leave --alignments out"
            )
        source = self.input(warn)
        exceptions = self.exceptions and Exceptions.of(self.exceptions, model)
        return Translation(self, model, source, exceptions or None, warn)

    def _is_table(self) -> bool:
        path = Path(self.file.file)
        if self.file.file == STREAM:
            return False
        from regard.data.files.source_table import is_table
        from regard.data.recognition.table import open_table

        if not is_table(path):
            return False
        if suffix_of(path) != ".tsv" or self.file.table_option:
            return True
        settings = self.file.settings(self.data)
        cells = open_table(path, settings, _usual_names()).first
        names = settings.source_columns
        if names is None and len(cells) > 1 and not settings.feature_columns:
            names = _usual_names()
        return find_column(cells, names or ()) is not None


@dataclass
class Translation:
    """A translation model with its input."""

    job: TranslationJob
    model: TranslationModel
    source: LineSources | Items[Source]
    exceptions: Exceptions | None
    warn: Callable[[str], None]
    """Takes sentences about the file of prefixes."""

    def __post_init__(self) -> None:
        self.columns: tuple[AddedColumn, ...] = ()
        if self.source.table is not None and is_table_name(self.job.outputs.texts):
            from regard.data.files.source_table import AddedColumn

            self.columns = (AddedColumn(self._target_name(self.source.table)),)
        sides = self.model.tokenizers.source, self.model.tokenizers.target
        is_cut = any(side.settings.kind == "characters" for side in sides)
        self._unit: TextUnit = self.job.links or ("pieces" if is_cut else "words")
        outputs = self.job.outputs
        self._attention = bool(outputs.alignments or outputs.trace or self.job.verbose)

    def chunks(self, run: Run) -> Iterator[list[Source]]:
        prefixes, number = self._prefixes(run), 0
        chunks = self.source.chunks(run)
        if self._attention:
            chunks = within_memory(chunks, self._parts)
        for chunk in chunks:
            number = chunk[-1].number + 1
            if prefixes is None:
                prefix = self.job.prefix
                yield [source._replace(prefix=prefix) for source in chunk] if prefix else chunk
                continue
            if number > len(prefixes):
                raise UserError(
                    f"{self.job.prefix_file} has {len(prefixes)} lines, but {self.job.file.file} "
                    f"has at least {number} sources: expected a line for each"
                )
            yield [source._replace(prefix=prefixes[source.number]) for source in chunk]
        if run.part is None and number < len(prefixes or ()):
            raise UserError(
                f"{self.job.prefix_file} has {len(prefixes or ())} lines for {number} sources: "
                "expected a line for each"
            )

    def outputs(self, chunk: list[Source], run: Run) -> Iterator[Output]:
        model, search, faults = self.model, self.job.search, run.faults
        faults.add_rows(self.source.table, chunk)
        texts = faults.fitting(model.source_form, ((source.line, source.text) for source in chunk))
        prefixes = [source.prefix for source in chunk]
        if any(prefixes):
            for place, problem in enumerate(model.prefix_problems(texts, prefixes, search)):
                if problem:
                    faults.add_unfit(problem, chunk[place].line)
                    texts[place] = ""
        with naming_lines([source.line for source in chunk]):
            translations = model.translate(
                texts,
                search=search,
                num_best=self.job.num_best,
                attention=self._attention,
                prefix=prefixes,
                exceptions=self.exceptions,
            )
        for source, translation in zip(chunk, translations, strict=True):
            faults.num_exceptions += translation.is_exception
            if translation.is_refused:
                faults.add_refused(source.line)
            else:
                faults.add_result(source.line, translation, model)
                outputs = translation, *translation.alternatives
                faults.cut += [source.line] * sum(output.is_cut for output in outputs)
            yield self._output(source, translation)

    def _output(self, source: Source, translation: GeneratedText) -> Output:
        text = self._joined(translation.text)
        if self.job.num_best > 1:
            text = "\n".join(
                f"{source.number}\t{hypothesis.score:.4f}\t{self._joined(hypothesis.text)}"
                for hypothesis in (translation, *translation.alternatives)
            )
        if self.job.verbose:
            text = f"{_steps(translation)}\n{text}"
        return Output(
            text,
            source.row,
            [text],
            _links(translation, self._unit) if self.job.outputs.alignments else "",
            translation.trace if self.job.outputs.trace else None,
            '{"is_exception": true}' if translation.is_exception else "{}",
        )

    def _joined(self, text: str) -> str:
        """Return a text, with pieces joined to words if the job says so."""
        return joined(text, marks_in(text)) if self.job.join_pieces else text

    def _parts(self, chunk: list[Source]) -> Iterator[list[str]]:
        texts = [source.text for source in chunk]
        return self.model.parts(texts, self.job.search, self.job.num_best)

    def _prefixes(self, run: Run) -> list[str] | None:
        """Read the file with the prefix of each source; None without a file."""
        if self.job.prefix_file is None:
            return None
        name = str(self.job.prefix_file)
        if name == STREAM:
            raise UserError("--prefix-file is -: expected a file")
        encoding = encoding_of(name, None, self.warn).reading
        return list(LineInput.open(name, run.files, run.faults.add_problem, encoding).lines)

    def _target_name(self, table: SourceTable) -> str:
        """Return the name of the column of translations: that of the targets in training, unless it
        is a number or the table has such a column."""
        name = self.model.data.target_column
        if name is None or name.isdecimal() or find_column(table.header or (), [name]) is not None:
            return NAME
        return name


def _usual_names() -> tuple[str, ...]:
    """Return usual names of the column of the sources, the most usual first."""
    from regard.data.recognition.header import SOURCE_NAMES, TEXT_NAMES

    return tuple(dict.fromkeys((*SOURCE_NAMES, *TEXT_NAMES)))


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


def _links(translation: GeneratedText, unit: TextUnit) -> str:
    """Return alignment links in Pharaoh format; empty for a blank line."""
    from regard.metrics.alignment import map_links, pharaoh, word_links
    from regard.trace import of_kind

    trace = translation.lazy_trace
    if trace is None:
        return ""
    maps = of_kind(trace.maps, "cross")
    if unit == "spaces":
        pieces = map_links(maps, trace.source, trace.target, unit="pieces")
        return pharaoh(word_links(pieces, *trace.words_at_spaces()))
    return pharaoh(map_links(maps, trace.source, trace.target, unit=unit))
