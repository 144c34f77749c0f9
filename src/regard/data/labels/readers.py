"""Readers of texts with labels (or numbers), in the usual formats.

    FOLDER/LABEL/anything.txt            one folder for each label, one text in each file
    FILE.csv, FILE.tsv, FILE.txt     text and label in columns, with or without a header
    FILE (anything else)             label, space, text: TREC, and fastText's __label__X

A folder may also hold files or folders with train, dev (or val, valid) and test in their names.
Each example is a `Pair` of text and label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
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
    column_number,
    find_column,
    missing_column,
    require_column,
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
from regard.data.several_labels import FASTTEXT, ListText, texts_of
from regard.errors import UserError
from regard.names import DecimalMark, Fault, SplitName
from regard.storage.files import open_bytes

SPLIT = re.compile(r"(?<![a-z])(?:(train|training)|(dev|val|valid|validation)|(test))(?![a-z])")


@dataclass(frozen=True)
class LabelColumns:
    """Numbers of the columns that are read, from 0. Several label columns are the numbers of one
    target."""

    text: int
    labels: tuple[int, ...]
    features: tuple[int, ...] = ()
    forms: tuple[NumberForm, ...] = ()
    """Form of the numbers in each label column; none for labels that are no numbers."""

    @cached_property
    def last(self) -> int:
        """Largest column."""
        return max(self.text, *self.labels, *self.features)


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
    if form.has_names:
        settings = replace(settings, header=True)
    if (form.kind == "text" and form.delimiter is None) or not path.is_file():
        return _lines(path, form, settings, known)
    rows = formats.read_rows(path, form, settings, otherwise=LEGACY_ENCODING, notes=notes)
    corpus = _table(list(rows), path, settings, known, form.usual_mark)
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
            corpus = _table(list(rows), path, settings, known)
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
    rows: Sequence[Row],
    path: Path,
    columns: LabelColumns,
    settings: TableSettings,
    usual: DecimalMark,
    header: Sequence[str] | None,
) -> tuple[tuple[NumberForm, ...], tuple[str, ...]]:
    """Return the form of the numbers of each label column, and a sentence for each column whose
    decimal mark is not decided."""
    forms, remarks = list[NumberForm](), list[str]()
    for column in columns.labels:
        cells = [row.cells[column] for row in rows if len(row.cells) > column and not row.fault]
        form = NumberForm.of(cells, settings.decimal_mark, usual)
        forms.append(form)
        remarks.append(undecided_mark(form, cells, f"{path}, column {column_name(header, column)}"))
    return tuple(forms), tuple(filter(None, remarks))


def _table(
    rows: Sequence[Row],
    path: Path,
    settings: TableSettings,
    known: Set[str] | None,
    usual: DecimalMark = "point",
) -> Corpus:
    """Read a table by the names in its header; without a header, text comes before label. Columns
    that are not read are reported unless both sides are named in the settings."""
    first = next((number for number, row in enumerate(rows) if formats.is_filled(row)), None)
    if first is None:
        return Corpus.of(_pair_of(row, LabelColumns(0, (1,)), path) for row in rows)
    head, body = rows[first].cells, [row.cells for row in rows[first + 1 :]]
    numbers, has_header = label_columns(head, body, path, settings, known)
    if numbers.text in numbers.labels:
        raise UserError(
            f"{path}: text and label are both column {numbers.text + 1}: set --data.source-column "
            "and --data.target-column"
        )
    is_chosen = bool(settings.source_columns and settings.target_columns)
    numbers = _with_features(numbers, head, path, settings, has_header=has_header)
    header = head if has_header else None
    remarks = () if is_chosen else _unused(head, numbers, path, has_header=has_header)
    if has_header:
        rows = [
            replace(row, fault="repeated header") if row.cells == header else row
            for number, row in enumerate(rows)
            if number != first
        ]
    units: tuple[str, ...] | None = None
    if known is None:
        forms, undecided = _forms(rows, path, numbers, settings, usual, header)
        remarks += undecided
        units = tuple(form.unit for form in forms)
        if not all(form.is_plain for form in forms):  # otherwise no cell changes
            numbers = replace(numbers, forms=forms)
    else:
        rows = [
            replace(row, fault="several labels") if _has_several_labels(row, numbers) else row
            for row in rows
        ]
    columns = ReadColumns.of_table(header, len(head), numbers.text, numbers.labels)
    corpus = Corpus.of((_pair_of(row, numbers, path) for row in rows), remarks, columns)
    return replace(corpus, units=units)


def _has_several_labels(row: Row, numbers: LabelColumns) -> bool:
    """Return whether a label of a row is a list of several labels."""
    cells = (row.cells[number] for number in numbers.labels if number < len(row.cells))
    return not row.fault and any(
        type(cell) is ListText and cell.has_several_labels for cell in cells
    )


def label_columns(
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    path: Path,
    settings: TableSettings,
    known: Set[str] | None = frozenset(),
) -> tuple[LabelColumns, bool]:
    """Return the columns of text and labels, and whether the first row is a header.

    Columns of the settings are found by name or number. The others have usual names, or are the
    first and the second column. UserError if a column is missing."""
    wanted = {"source": settings.source_columns or (), "target": settings.target_columns or ()}
    names = [name for side in wanted.values() for name in side]
    if settings.header is False or (names and all(map(str.isdecimal, names))):
        named = None
    else:
        named = _named_columns(head, body, wanted, path)
    has_header = settings.header is True or named is not None
    if settings.header is None and not has_header and not (names and known is None):
        label = composed(head[1]) if len(head) > 1 else ""
        labels = [composed(row[1]) for row in body if len(row) > 1]
        has_header = names_labels(label, labels, known)
    if named is not None:
        return named, has_header
    columns: dict[str, tuple[int, ...]] = {"source": (0,), "target": (1,)}
    for side, side_names in wanted.items():
        numbers = [column_number(name, None, len(head)) for name in side_names]
        if None in numbers:
            name = side_names[numbers.index(None)]
            raise missing_column(path, name, f"--data.{side}-column", head)
        present = tuple(number for number in numbers if number is not None)
        columns[side] = present or columns[side]
    if not wanted["source"] and columns["source"][0] in columns["target"]:
        columns["source"] = (1 if 0 in columns["target"] else 0,)
    if settings.header is None and names:
        target = columns["target"][0]
        labels = [composed(row[target]) for row in body if len(row) > target]
        label = composed(head[target]) if len(head) > target else ""
        has_header = names_labels(label, labels, known)
    return LabelColumns(columns["source"][0], columns["target"]), has_header


def _with_features(
    numbers: LabelColumns,
    head: Sequence[str],
    path: Path,
    settings: TableSettings,
    *,
    has_header: bool,
) -> LabelColumns:
    """Return the columns with those of features. UserError for a column that the table lacks, and
    for one that is the text or a label too."""
    features = []
    for name in settings.feature_columns or ():
        header = head if has_header else None
        number = require_column(path, name, "--data.feature-columns", header, head)
        if number in (numbers.text, *numbers.labels):
            side = "source" if number == numbers.text else "target"
            raise UserError(
                f"{path}: column {number + 1} is read as {side} and as features "
                f"(--data.feature-columns): set --data.{side}-column"
            )
        features.append(number)
    return replace(numbers, features=tuple(features))


def _named_columns(
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    wanted: Mapping[str, tuple[str, ...]],
    path: Path,
) -> LabelColumns | None:
    """Return the columns of text and labels by the names in the first row; None if the first row is
    not a header."""
    for side, names in wanted.items():
        for name in names:
            if column_number(name, head, len(head)) is None:
                raise missing_column(path, name, f"--data.{side}-column", head)
    texts, labels = wanted["source"], wanted["target"]
    usual = [name for name in TEXT_NAMES if name not in map(str.lower, labels)]
    text = column_number(texts[0], head, len(head)) if texts else find_column(head, usual)
    matches = [column_number(name, head, len(head)) for name in labels]
    matches = matches or [find_column(head, LABEL_NAMES)]
    numbers = tuple(number for number in matches if number is not None)
    if text is not None and numbers:
        return LabelColumns(text, numbers)
    known = numbers[0] if text is None and numbers else text
    if known is None or not (texts or labels or _is_name(known, head, body)):
        return None
    if len(head) == 2:
        return LabelColumns(1 - known, numbers) if numbers else LabelColumns(known, (1 - known,))
    present, missing = ("source", "target") if numbers == () else ("target", "source")
    raise UserError(
        f"{path}: the first row is {show_cells(head)}, where {head[known][:40]!r} names the "
        f"{present} column: name the {missing} column with --data.{missing}-column; if the first "
        "row is an example, use --data.no-header"
    )


def _is_name(number: int, head: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether a field of the first row is a name: labels occur again, names do not, unless
    the whole row does."""
    return not any(
        len(row) > number and row[number] == head[number] and row != head for row in body
    )


def _unused(
    head: Sequence[str], used: LabelColumns, path: Path, *, has_header: bool
) -> tuple[str, ...]:
    """Return a sentence about columns that are not read, if there are any."""
    numbers = {used.text, *used.labels, *used.features}
    names = [cell for number, cell in enumerate(head) if number not in numbers]
    if not names:
        return ()
    if has_header:
        return (f"columns of {path} that are not read: {show_cells(names)}",)
    labels = ", ".join(str(number + 1) for number in used.labels)
    return (
        f"{path} has {len(head)} columns and no header: column {used.text + 1} is read as text, "
        f"column {labels} as label",
    )


def _pair_of(entry: Row, numbers: LabelColumns, path: Path) -> Pair | LineProblem:
    row, line = entry.cells, entry.line
    if entry.fault:
        return LineProblem(str(path), line, entry.fault, " ".join(row))
    if len(row) <= numbers.last:
        kind: Fault = "few columns" if any(cell.strip() for cell in row) else "blank"
        return LineProblem(str(path), line, kind, " ".join(row))
    if any("\0" in cell for cell in row):
        return LineProblem(str(path), line, "NUL", " ".join(row))
    if len(texts_of(row[numbers.text])) > 1:
        return LineProblem(str(path), line, "several texts", " ".join(row))
    text = " ".join(row[numbers.text].split())
    labels = [composed(row[number]) for number in numbers.labels]
    if any(label.count(FASTTEXT) > 1 for label in labels):
        return LineProblem(str(path), line, "several labels", " ".join(row))
    if is_blank_text(text) or any(map(is_blank_text, labels)):
        return LineProblem(str(path), line, "blank", " ".join(row))
    if numbers.forms:
        cells = [stripped(row[number]) for number in numbers.labels]
        for place, form in enumerate(numbers.forms):
            plain = form.plain_words(cells[place])
            if plain is None:
                return LineProblem(str(path), line, form.fault(cells[place]), " ".join(row))
            labels[place] = plain
    if numbers.features:
        features = (" ".join(row[number].split()) for number in numbers.features)
        text = "\t".join((text, *features))
    return Pair(text, " ".join(labels), line, str(path))


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
