"""Readers of texts with labels (or numbers), in the usual formats.

    FOLDER/LABEL/anything.txt            one folder for each label, one text in each file
    FILE.csv, FILE.tsv, FILE.txt     text and label in columns, with or without a header
    FILE (anything else)             label, space, text: TREC, and fastText's __label__X

A folder may also hold files or folders with train, dev (or val, valid) and test in their names.
Each example is a `Pair` of text and label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from pathlib import Path

from regard.characters import composed, is_blank_text
from regard.data.examples import Corpus, ReadColumns
from regard.data.files.lines import LEGACY_ENCODING, LeftOut, Line, LineProblem, summary_of
from regard.data.files.pairs import divided_lines, forms_of, pair_of, rows_below_header
from regard.data.files.tables import SEPARATORS, Row, TableSettings, show_cells, suffix_of
from regard.data.labels.folders import read_folders
from regard.data.recognition import formats
from regard.data.recognition.decimals import NumberForm, undecided_mark
from regard.data.recognition.first_words import are_marked, split_labels
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.header import LABEL_NAMES, TEXT_NAMES
from regard.data.recognition.table import IN_ORDER, Columns, Table, columns_of, table_of_rows
from regard.data.several_labels import FASTTEXT, ListText
from regard.errors import UserError
from regard.names import SplitName
from regard.runtime.progress import OnProgress

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
    header if `table_of_rows` decides so, or if its label is that of no other row. Labels in
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
    rows: Iterable[Row] | None
    if (form.kind == "text" and form.delimiter is None) or not path.is_file():
        lines, rows = divided_lines(path, form, notes, lambda text: _separator(path, text))
    else:
        rows = formats.read_rows(path, form, settings, otherwise=LEGACY_ENCODING, notes=notes)
    if rows is not None:
        corpus = _table(list(rows), path, form, settings, known)
    elif settings.source_columns or settings.target_columns or settings.feature_columns:
        raise UserError(f"{path} has no columns: expected .csv, .tsv, or tabs between columns")
    else:
        is_marked = are_marked([line.text for line in lines])
        corpus = Corpus.of(
            pair_of(_label_first(line, is_marked), IN_ORDER, str(path), clean=composed)
            for line in lines
        )
        corpus = with_numbers(corpus, path, settings) if known is None else corpus
    return replace(corpus, remarks=(*corpus.remarks, *summary_of(notes)))


def _separator(path: Path, text: str) -> str | None:
    """Return the separator of columns in a file that begins with this line; None if the label is
    its first word."""
    if formats.LABEL_FIRST.match(text):
        return None
    return SEPARATORS.get(suffix_of(path)) or ("\t" if "\t" in text else None)


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
    named = table.with_names_of_labels(columns.targets[0], settings, known)
    if named is not table:
        table, columns = named, columns_of(named, settings, "classify")
    is_chosen = bool(settings.source_columns and settings.target_columns)
    remarks = () if is_chosen else _unused(table, columns)
    rows = list(rows_below_header(rows, has_header=table.header is not None))
    forms: tuple[NumberForm, ...] = ()
    units: tuple[str, ...] | None = None
    if known is None:
        forms, undecided = forms_of(rows, table, columns, settings)
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
    pairs = (pair_of(row, columns, str(path), forms, composed) for row in rows)
    return replace(Corpus.of(pairs, remarks, names), units=units)


def _has_several_labels(row: Row, columns: Columns) -> bool:
    """Return whether a label of a row is a list of several labels."""
    cells = (row.cells[number] for number in columns.targets if number < len(row.cells))
    return not row.fault and any(
        cell.count(FASTTEXT) > 1 or (type(cell) is ListText and cell.has_several_labels)
        for cell in cells
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


def _label_first(line: Line, is_marked: bool) -> Row:
    """Return the text of a line, and its label. In a file of fastText's format every line has a
    mark."""
    labels, text = split_labels(line.text)
    fault = line.fault
    if fault is None and not is_blank_text(text):
        if len(labels) > 1:
            fault = "several labels"
        elif is_blank_text(labels[0]) or (is_marked and FASTTEXT not in line.text):
            fault = "no label"
    return Row((text, labels[0]), line.number, fault)
