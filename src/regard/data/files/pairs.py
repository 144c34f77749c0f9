"""Pairs of the rows of a table, for all tasks, from files and from data in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard.characters import composed, is_blank_text
from regard.data.examples import Pair
from regard.data.files.lines import LEGACY_ENCODING, Line, LineProblem, decoded, noting
from regard.data.files.tables import Quotes, Row, TableSettings, column_name, is_blank, table_rows
from regard.data.recognition.decimals import NumberForm, stripped, undecided_mark
from regard.data.recognition.formats import FileFormat, is_filled
from regard.data.recognition.table import Columns, Table
from regard.data.several_labels import texts_of
from regard.names import Fault
from regard.storage.files import open_bytes

LINE_ENDS = re.compile(r"[\t\r\n]+")


def on_one_line(text: str) -> str:
    """Return a text with spaces in place of tabs and line ends, which would end a field in the
    files of a run."""
    return LINE_ENDS.sub(" ", text).strip()


def pair_of(
    row: Row,
    columns: Columns,
    path: str,
    forms: Sequence[NumberForm] = (),
    clean: Callable[[str], str] = on_one_line,
) -> Pair | LineProblem:
    """Return the source of a row, with its features after tabs, and its targets with spaces
    between; or the reason why the row is no pair. `forms`: forms of the numbers in the columns of
    the target, if these are numbers. `clean` makes the cell of a text its text."""
    cells, fault = row.cells, row.fault
    if fault is None and len(cells) <= columns.last:
        fault = "blank" if is_blank(cells) else "few columns"
    if fault is None:
        source, *targets = (cells[number] for number in (columns.source, *columns.targets))
        fault = _fault_of(source, *targets) or _fault_of_numbers(targets, forms)
    if fault is not None:
        return LineProblem(path, row.line, fault, "\t".join(cells))
    if forms:
        numbers = zip(forms, map(stripped, targets), strict=True)
        target = " ".join(form.plain_words(cell) or "" for form, cell in numbers)
    else:
        target = " ".join(map(clean, targets))
    features = (composed(cells[number]) for number in columns.features)
    return Pair("\t".join((clean(source), *features)), target, row.line, path)


def _fault_of(*cells: str) -> Fault | None:
    """Return the reason why the cells of a pair cannot be used."""
    if any(map(is_blank_text, cells)):
        return "blank"
    if any("\0" in cell for cell in cells):
        return "NUL"
    return "several texts" if any(len(texts_of(cell)) > 1 for cell in cells) else None


def _fault_of_numbers(cells: Sequence[str], forms: Sequence[NumberForm]) -> Fault | None:
    """Return the reason why one of these cells is no number."""
    for form, cell in zip(forms, map(stripped, cells), strict=False):
        if form.plain_words(cell) is None:
            return form.fault(cell)
    return None


def forms_of(
    rows: Iterable[Row], table: Table, columns: Columns, settings: TableSettings
) -> tuple[tuple[NumberForm, ...], tuple[str, ...]]:
    """Return the form of the numbers in each column of the target, and a sentence for each column
    whose decimal mark is not decided."""
    rows = [row for row in rows if row.fault is None]
    forms, remarks = list[NumberForm](), list[str]()
    for column in columns.targets:
        cells = [row.cells[column] for row in rows if len(row.cells) > column]
        forms.append(NumberForm.of(cells, settings.decimal_mark, table.form.usual_mark))
        name = f"{table.name}, column {column_name(table.header, column)}"
        remarks.append(undecided_mark(forms[-1], cells, name))
    return tuple(forms), tuple(filter(None, remarks))


def rows_below_header(rows: Iterable[Row], *, has_header: bool) -> Iterator[Row]:
    """Yield the rows of a file without its header. A row that is the header again has a fault."""
    header: tuple[str, ...] | None = None
    for row in rows:
        if has_header and header is None and is_filled(row):
            header = row.cells
        elif row.cells == header:
            yield replace(row, fault="repeated header")
        else:
            yield row


def divided_lines(
    path: Path,
    form: FileFormat,
    notes: list[LineProblem],
    separator_of: Callable[[str], str | None],
) -> tuple[list[Line], Iterator[Row] | None]:
    """Return the lines of a pipe, or of a file without a recognised delimiter, and their rows.
    Without a separator of the first line, there are no rows. `notes` gets the notes on lines."""
    with open_bytes(path) as file:
        texts = decoded(file, path, LEGACY_ENCODING, form.encoding.reading)
        lines = list(noting(texts, path, notes))
    separator = separator_of(lines[0].text) if lines else None
    if separator is None:
        return lines, None
    return lines, table_rows(iter(lines), separator, Quotes() if separator == "," else None)
