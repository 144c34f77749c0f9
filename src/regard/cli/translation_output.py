"""Output of `regard translate`: translations, alignment links and traces."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from regard.cli.lines import opened
from regard.cli.table_rows import RowWriter, open_wider_table
from regard.cli.translate_table import is_table_name, target_name
from regard.data.files.source_table import AddedColumn
from regard.data.text.subword_marks import joined, marks_in
from regard.names import LinkUnit, TextUnit

if TYPE_CHECKING:
    from regard.cli.translate import Options
    from regard.data.files.source_table import SourceTable
    from regard.data.files.tables import Row
    from regard.inference.parts import Part
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel


@dataclass
class TranslationOutput:
    """Files of translations, links and traces."""

    options: Options
    unit: TextUnit
    file: TextIO | None
    """File of translations. None: the standard output, or a table."""
    alignments: TextIO | None
    traces: TextIO | None
    writer: RowWriter | None = None
    """Table with translations."""

    @classmethod
    def open(
        cls,
        options: Options,
        translator: TranslationModel,
        table: SourceTable | None,
        files: ExitStack,
        part: Part | None,
    ) -> TranslationOutput:
        """Open the files of a part, or of the whole input, until `files` close."""
        is_table = table is not None and is_table_name(options.output)
        file = None if is_table else opened(files, options.output)
        alignments, traces = opened(files, options.alignments), opened(files, options.trace)
        unit = options.links or _unit(translator)
        output = cls(options, unit, file, alignments, traces)
        if table is not None and is_table:
            added = AddedColumn(target_name(table, translator.data))
            output.writer = open_wider_table(files, table, options.output, [added], part)
        return output

    def add(self, row: Row | None, number: int, translation: GeneratedText) -> None:
        """Write the translation of the source with this number, from 0, and of this row of a
        table."""
        if self.options.verbose:
            print(_steps(translation), file=self.file)
        if self.writer is not None and row is not None:
            self.writer.add(row, [self._joined(translation.text)])
        else:
            line = _line(translation, number, self.options.nbest)
            print("\n".join(map(self._joined, line.split("\n"))), file=self.file)
        if self.alignments:
            print(_links(translation, self.unit), file=self.alignments)
        if self.traces:
            without = '{"is_exception": true}' if translation.is_exception else "{}"
            print(translation.trace.to_json() if translation.trace else without, file=self.traces)

    def _joined(self, text: str) -> str:
        """Return a text, with pieces joined to words if the option is set."""
        if not self.options.join_pieces:
            return text
        *beginning, text = text.split("\t")
        return "\t".join([*beginning, joined(text, marks_in(text))])


def _unit(translator: TranslationModel) -> LinkUnit:
    """Return the default units of links."""
    sides = translator.tokenizers.source, translator.tokenizers.target
    return "pieces" if any(side.settings.kind == "characters" for side in sides) else "words"


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
