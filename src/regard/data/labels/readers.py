"""Readers of texts with labels (or numbers), in the usual formats.

    FOLDER/LABEL/anything.txt            one folder for each label, one text in each file
    FILE.csv, FILE.tsv, FILE.txt     text and label in columns, with or without a header
    FILE (anything else)             label, space, text: TREC, and fastText's __label__X

A folder may also hold files or folders with train, dev (or val, valid) and test in their names.
Each example is a `Pair` of text and label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import chain
from pathlib import Path

from regard.characters import composed, is_blank_text
from regard.data.examples import Corpus, Pair, ReadColumns
from regard.data.files.lines import (
    LEGACY_ENCODING,
    LeftOut,
    Line,
    LineProblem,
    decoded,
    noting,
    summary_of,
)
from regard.data.files.tables import (
    SEPARATORS,
    Quotes,
    Row,
    TableSettings,
    column_name,
    show_cells,
    suffix_of,
    table_rows,
)
from regard.data.labels.folders import OnProgress, read_folders
from regard.data.recognition import formats
from regard.data.recognition.decimals import NumberForm, stripped, undecided_mark
from regard.data.recognition.first_words import are_marked, split_labels
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.header import LABEL_NAMES, TEXT_NAMES, names_labels
from regard.data.recognition.table import (
    Columns,
    Table,
    columns_of,
    rows_below_header,
    table_of_rows,
)
from regard.data.several_labels import FASTTEXT, ListText, texts_of
from regard.errors import UserError
from regard.names import Fault, SplitName
from regard.storage.files import open_bytes

NAMES = (*TEXT_NAMES, *LABEL_NAMES)
"""Usual names, of which one names the columns."""
SPLIT = re.compile(r"(?<![a-z])(?:(train|training)|(dev|val|valid|validation)|(test))(?![a-z])")


def split_files(path: Path) -> dict[SplitName, Path]:
    """Return the path of each split. The entries of a folder are recognised by their names; without
    a training entry, and for a file, the whole path is the training split. UserError if a folder
    has two entries for one split."""
    if not path.is_dir():
        return {"train": path}
    entries: dict[SplitName, Path] = {}
    for entry in sorted(entry for entry in path.iterdir() if not entry.name.startswith(".")):
        match = SPLIT.search(entry.name.lower())
        if match is None:
            continue
        split: SplitName = "train" if match[1] else "dev" if match[2] else "test"
        if split in entries:
            raise UserError(
                f"{path} has two files for {split}: {entries[split].name} and {entry.name}. Name "
                "one with --data.path"
            )
        entries[split] = entry
    return entries if "train" in entries else {"train": path}


def read_labelled(
    path: Path,
    settings: TableSettings | None = None,
    known: Set[str] | None = frozenset(),
    on_progress: OnProgress | None = None,
) -> Corpus:
    """Read all examples of a file, or of a folder with one folder for each label.

    Lines that are blank, have a NUL, or lack their label or text are dropped and listed. Lines that
    are not UTF-8 in a file of UTF-8 are read as cp1252, the encoding of older collections.
    UserError if there are no examples, or if a column is missing. The first row of a table is a
    header if it has a usual name, or if its second field is a label of no other row. Labels in
    `known`, such as those of the training data, are never read as names. If `known` is None,
    targets are numbers, whose unit and marks `NumberForm` recognises; rows with anything else are
    dropped and listed.
    """
    settings = settings or TableSettings()
    if path.is_dir() and settings.feature_columns:
        raise UserError(
            f"{path} is a folder of texts, which have no features (--data.feature-columns): give a "
            "table"
        )
    if path.is_dir():
        corpus = read_folders(path, on_progress)
        corpus = with_numbers(corpus, path, settings) if known is None else corpus
    else:
        corpus = _file(path, settings, known)
    if not corpus.pairs:
        for problem in several_labels_of(corpus.left_out):
            raise UserError(problem)
        reason = "; ".join(corpus.left_out.summary()) or "it is empty"
        expected = "lines of text TAB label, a .csv, or lines of label SPACE text"
        if known is None:
            expected = "numbers as targets; name their column with --data.target-column"
        raise UserError(f"no examples in {path}: {reason}. Expected {expected}")
    return corpus


def several_labels_of(left_out: LeftOut) -> tuple[str, ...]:
    """Return a sentence for each file with lines that have several labels."""
    return tuple(
        f"{path} has {lines.count:,} {'line' if lines.count == 1 else 'lines'} with several labels "
        f"({lines}), but a run learns one label for each text: keep one label in each line"
        for path, kinds in left_out.places.items()
        if (lines := kinds.get("several labels")) is not None
    )


def _file(path: Path, settings: TableSettings, known: Set[str] | None) -> Corpus:
    form, notes = formats.recognise(path, settings), list[LineProblem]()
    if (form.kind == "text" and form.delimiter is None) or not path.is_file():
        return _lines(path, form, settings, known)
    rows = formats.read_rows(path, form, settings, otherwise=LEGACY_ENCODING, notes=notes)
    corpus = _table(list(rows), path, form, settings, known)
    return _with_notes(corpus, notes)


def _lines(path: Path, form: FileFormat, settings: TableSettings, known: Set[str] | None) -> Corpus:
    """Read lines with the label first, or a pipe, whose first line says whether it has columns."""
    notes = list[LineProblem]()
    with open_bytes(path) as file:
        lines = noting(decoded(file, path, LEGACY_ENCODING, form.encoding.reading), path, notes)
        first = next(lines, None)
        if first is None:
            return Corpus(())
        separator = SEPARATORS.get(suffix_of(path)) or ("\t" if "\t" in first.text else None)
        if formats.LABEL_FIRST.match(first.text):
            separator = None
        lines = chain([first], lines)
        if separator is not None:
            rows = table_rows(lines, separator, Quotes() if separator == "," else None)
            corpus = _table(list(rows), path, form, settings, known)
        elif settings.source_columns or settings.target_columns or settings.feature_columns:
            raise UserError(f"{path} has no columns: expected .csv, .tsv, or tabs between columns")
        else:
            listed = list(lines)
            is_marked = are_marked([line.text for line in listed])
            corpus = Corpus.of(_label_first(line, path, is_marked) for line in listed)
            corpus = with_numbers(corpus, path, settings) if known is None else corpus
    return _with_notes(corpus, notes)


def _with_notes(corpus: Corpus, notes: Sequence[LineProblem]) -> Corpus:
    return replace(corpus, remarks=(*corpus.remarks, *summary_of(notes)))


def with_numbers(corpus: Corpus, place: Path | str, settings: TableSettings) -> Corpus:
    """Return a corpus with its targets as Python writes numbers. Other targets are dropped and
    listed."""
    targets = [pair.target for pair in corpus.pairs]
    form = NumberForm.of(targets, settings.decimal_mark)
    numbers = zip(corpus.pairs, map(form.plain_words, targets), strict=True)
    pairs = (
        LineProblem(pair.path, pair.line, form.fault(pair.target), pair.target)
        if number is None
        else replace(pair, target=number)
        for pair, number in numbers
    )
    remark = undecided_mark(form, targets, str(place))
    result = Corpus.of(pairs, (*corpus.remarks, *filter(None, [remark])), corpus.columns)
    problems = (*corpus.problems, *result.problems)
    return replace(result, problems=problems, units=(form.unit,))


def _forms(
    rows: Sequence[Row], table: Table, columns: Columns, settings: TableSettings
) -> tuple[tuple[NumberForm, ...], tuple[str, ...]]:
    """Return the form of the numbers of each label column, and a sentence for each column whose
    decimal mark is not decided."""
    forms, remarks = list[NumberForm](), list[str]()
    for column in columns.targets:
        cells = [row.cells[column] for row in rows if len(row.cells) > column and not row.fault]
        form = NumberForm.of(cells, settings.decimal_mark, table.form.usual_mark)
        forms.append(form)
        name = column_name(table.header, column)
        remarks.append(undecided_mark(form, cells, f"{table.name}, column {name}"))
    return tuple(forms), tuple(filter(None, remarks))


def _table(
    rows: Sequence[Row],
    path: Path,
    form: FileFormat,
    settings: TableSettings,
    known: Set[str] | None,
) -> Corpus:
    """Read a table. Columns that are not read are reported unless both sides are named in the
    settings."""
    cells = [row.cells for row in rows if formats.is_filled(row)]
    table = table_of_rows(str(path), cells, form, settings, NAMES)
    columns = columns_of(table, settings, "classify")
    if table.header is None and settings.header is None:
        label, *labels = [_label(row, columns.targets[0]) for row in table.rows] or [""]
        if names_labels(label, list(filter(None, labels)), known):
            table = table.with_first_as_header()
            columns = columns_of(table, settings, "classify")
    is_chosen = bool(settings.source_columns and settings.target_columns)
    remarks = () if is_chosen else _unused(table, columns)
    rows = list(rows_below_header(rows, has_header=table.header is not None))
    forms: tuple[NumberForm, ...] = ()
    units: tuple[str, ...] | None = None
    if known is None:
        forms, undecided = _forms(rows, table, columns, settings)
        remarks += undecided
        units = tuple(form.unit for form in forms)
        if all(form.is_plain for form in forms):
            forms = ()  # no cell changes
    else:
        rows = [
            replace(row, fault="several labels") if _has_several_labels(row, columns) else row
            for row in rows
        ]
    names = ReadColumns.of_table(table.header, len(table.first), columns.source, columns.targets)
    pairs = (_pair_of(row, columns, forms, str(path)) for row in rows)
    return replace(Corpus.of(pairs, remarks, names), units=units)


def _label(row: Sequence[str], column: int) -> str:
    """Return the label of a row; blank if it has none."""
    return composed(row[column]) if len(row) > column else ""


def _has_several_labels(row: Row, columns: Columns) -> bool:
    """Return whether a label of a row is a list of several labels."""
    cells = (row.cells[number] for number in columns.targets if number < len(row.cells))
    return not row.fault and any(
        type(cell) is ListText and cell.has_several_labels for cell in cells
    )


def _unused(table: Table, columns: Columns) -> tuple[str, ...]:
    """Return a sentence about columns that are not read, if there are any."""
    used = {columns.source, *columns.targets, *columns.features}
    names = [cell for number, cell in enumerate(table.first) if number not in used]
    if not names:
        return ()
    if table.header is not None:
        return (f"columns of {table.name} that are not read: {show_cells(names)}",)
    labels = ", ".join(str(number + 1) for number in columns.targets)
    return (
        f"{table.name} has {len(table.first)} columns and no header: column {columns.source + 1} "
        f"is read as text, column {labels} as label",
    )


def _pair_of(
    entry: Row, columns: Columns, forms: Sequence[NumberForm], path: str
) -> Pair | LineProblem:
    row, line = entry.cells, entry.line
    if entry.fault:
        return LineProblem(path, line, entry.fault, " ".join(row))
    if len(row) <= columns.last:
        kind: Fault = "few columns" if any(cell.strip() for cell in row) else "blank"
        return LineProblem(path, line, kind, " ".join(row))
    if any("\0" in cell for cell in row):
        return LineProblem(path, line, "NUL", " ".join(row))
    if len(texts_of(row[columns.source])) > 1:
        return LineProblem(path, line, "several texts", " ".join(row))
    text = " ".join(row[columns.source].split())
    labels = [composed(row[number]) for number in columns.targets]
    if any(label.count(FASTTEXT) > 1 for label in labels):
        return LineProblem(path, line, "several labels", " ".join(row))
    if is_blank_text(text) or any(map(is_blank_text, labels)):
        return LineProblem(path, line, "blank", " ".join(row))
    for place, form in enumerate(forms):
        cell = stripped(row[columns.targets[place]])
        plain = form.plain_words(cell)
        if plain is None:
            return LineProblem(path, line, form.fault(cell), " ".join(row))
        labels[place] = plain
    if columns.features:
        features = (" ".join(row[number].split()) for number in columns.features)
        text = "\t".join((text, *features))
    return Pair(text, " ".join(labels), line, path)


def _label_first(line: Line, path: Path, is_marked: bool) -> Pair | LineProblem:
    """Return the text of a line with its label. In a file of fastText's format every line has a
    mark."""
    if line.fault:
        return LineProblem(str(path), line.number, line.fault, line.text)
    labels, text = split_labels(line.text)
    kind: Fault | None = None
    if is_blank_text(text):
        kind = "blank"
    elif len(labels) > 1:
        kind = "several labels"
    elif is_blank_text(labels[0]) or (is_marked and FASTTEXT not in line.text):
        kind = "no label"
    if kind is not None:
        return LineProblem(str(path), line.number, kind, line.text)
    return Pair(text, composed(labels[0]), line.number, str(path))
