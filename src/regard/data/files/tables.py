"""Rows of files with columns, with the numbers of their first lines, and columns by name or
number."""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.files.lines import MAX_LINE, Line
from regard.names import DecimalMark, Fault, TableFormat, TargetKind

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Usual separators of columns by the suffix of the file name."""
SUFFIXES: dict[str, TableFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "workbook",
    ".xlsm": "workbook",
    ".xlsb": "workbook",
    ".xls": "workbook",
    ".ods": "workbook",
    ".parquet": "parquet",
}
"""Formats whose columns have names or types, by the suffix of the file name."""
NEARLY_ALL = 0.9
"""Share of rows with the same number of cells, if most rows have more cells than the header."""
MIN_ROWS = 5
"""Number of rows without a header below which each may have another number of cells."""
MIN_SWALLOWED = 3
"""Number of lines of one row above which a quote is not closed if the lines inside are rows."""
SHOWN_CELLS = 20
"""Number of cells of a row in a message."""


@dataclass(frozen=True)
class TableSettings:
    """Encoding, delimiter, header and columns of a file. None: recognised from the file."""

    encoding: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    sheet: str | None = None
    source_columns: tuple[str, ...] | None = None
    """Columns of the source, by name or by number from 1."""
    target_columns: tuple[str, ...] | None = None
    """Columns of the target, by name or by number from 1."""
    feature_columns: tuple[str, ...] | None = None
    """Columns of features of the source, by name or by number from 1."""
    decimal_mark: DecimalMark | None = None
    """Decimal mark of numbers, if the cells do not decide it."""
    target: TargetKind | None = None
    """Kind of the targets of the classification task."""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of a row."""

    cells: tuple[str, ...]
    line: int
    """Number of the first line; in a workbook, of the row."""
    fault: Fault | None = None
    """Reason why a line of the row cannot be used."""
    note: Fault | None = None
    """Encoding of a line of the row, if it is not that of the file."""


def suffix_of(path: Path) -> str:
    """Return the suffix of a file name in lower case, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def find_column(head: Sequence[str], names: Iterable[str]) -> int | None:
    """Return the column of the first of these names that is in the header, or None. Case is
    ignored if no column has the name in its own case."""
    own = [cell.strip() for cell in head]
    cells = [cell.lower() for cell in own]
    name = next((name for name in names if name.lower() in cells), None)
    if name is None:
        return None
    return own.index(name) if name in own else cells.index(name.lower())


def column_number(name: str, header: Sequence[str] | None, num_columns: int) -> int | None:
    """Return the column with this name, or with this number from 1; None if there is neither. A
    name precedes a number."""
    column = find_column(header, [name]) if header is not None else None
    if column is None and name.isdecimal() and 1 <= int(name) <= num_columns:
        column = int(name) - 1
    return column


def column_name(header: Sequence[str] | None, number: int) -> str:
    """Return the name of a column (from 0), or its number from 1 if no name identifies it."""
    header = header or ()
    name = header[number].strip() if number < len(header) else ""
    is_unique = [cell.strip().lower() for cell in header].count(name.lower()) == 1
    is_name = name and is_unique and name.isprintable()
    return name if is_name else str(number + 1)


def flat_fields(value: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of an object. A name inside an object has the name of that object
    and a dot before it."""
    for name, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from flat_fields(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


def is_blank(cells: Iterable[str]) -> bool:
    """Return whether no cell has a text."""
    return not "".join(cells).strip()


def show_cells(cells: Sequence[str]) -> str:
    """Return the cells of a row as text for a message."""
    shown = ", ".join(" ".join(cell.split())[:40] for cell in cells[:SHOWN_CELLS])
    return f"{shown}, …" if len(cells) > SHOWN_CELLS else shown


def num_columns(rows: Sequence[Sequence[str]], *, has_header: bool) -> int:
    """Return the number of columns of a table: that of the header, unless most rows have more. Then
    it is that of nearly all rows, and without a header that of most rows with a delimiter, unless
    few rows have one. Blank cells at the end do not count. 0 if the rows do not decide it."""
    widths = [width for row in rows if (width := _width(row))]
    if not widths:
        return 0
    divided = [width for width in widths if width > 1]
    if not has_header and len(divided) > (1 - NEARLY_ALL) * len(widths):
        widths = divided
    if has_header and 2 * sum(width <= widths[0] for width in widths[1:]) > len(widths[1:]):
        return widths[0]
    usual, count = Counter(widths).most_common(1)[0]
    is_usual = count >= NEARLY_ALL * len(widths) if has_header else 2 * count > len(widths)
    return usual if is_usual and len(widths) >= MIN_ROWS else 0


def _width(cells: Sequence[str]) -> int:
    """Return the number of cells without blank cells at the end."""
    width = len(cells)
    while width and not cells[width - 1].strip():
        width -= 1
    return width


def ends_blank(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether the last column is blank in some rows, and most rows have no cell beyond it.
    Then a row with a filled cell there and a blank cell beyond it may be shifted."""
    num_wide = sum(len(row) > width for row in rows)
    is_optional = any(len(row) == width and is_blank(row[-1:]) for row in rows)
    return width > 0 and is_optional and 2 * num_wide < len(rows)


def limited(row: Row, width: int, *, ends_blank: bool = False) -> Row:
    """Return a row with more cells than this width: without the cells beyond it if these are blank,
    otherwise with the fault "many columns". If the column before them may be blank, a row that has
    a text there has the fault too."""
    is_shifted = ends_blank and bool(row.cells[width - 1].strip())
    if is_blank(row.cells[width:]) and not is_shifted:
        return replace(row, cells=row.cells[:width])
    return row if row.fault else replace(row, fault="many columns")


class Quotes(NamedTuple):
    """Quotes around cells."""

    mark: str = '"'
    escape: str | None = None
    """Character before a quote inside a cell; None: such quotes are doubled."""


def quotes_of(lines: Sequence[str], delimiter: str) -> Quotes:
    """Return the quotes of delimited lines: single quotes if nearly all lines have a cell in them,
    or escaped quotes if nearly all lines have the same number of cells with these only."""
    mark = re.escape(delimiter)
    single = re.compile(rf"(?:^|{mark})\s*'(?:[^']|'')*'\s*(?:{mark}|$)")
    candidates = list[Quotes]()
    if sum(single.search(line) is not None for line in lines) >= NEARLY_ALL * len(lines):
        candidates.append(Quotes("'"))
    if any('\\"' in line for line in lines):
        candidates.append(Quotes(escape="\\"))
    for quotes in candidates:
        num_regular = _num_regular(lines, delimiter, quotes)
        num_usual = _num_regular(lines, delimiter, Quotes())
        if num_regular >= max(NEARLY_ALL * len(lines), num_usual):
            return quotes
    return Quotes()


def _num_regular(lines: Sequence[str], delimiter: str, quotes: Quotes) -> int:
    """Return the number of rows with the most frequent number of cells, with these quotes."""
    rows = rows_of(lines, delimiter, quotes)
    counts = Counter(len(row.cells) for row in rows if row.fault is None)
    return max(counts.values(), default=0)


def rows_of(lines: Iterable[str], delimiter: str, quotes: Quotes | None) -> Iterator[Row]:
    """Yield the rows of texts of lines."""
    numbered = (Line(number, line, True) for number, line in enumerate(lines, 1))
    yield from table_rows(numbered, delimiter, quotes)


def table_rows(
    lines: Iterable[Line], delimiter: str, quotes: Quotes | None, width: int = 0
) -> Iterator[Row]:
    """Yield the rows of delimited lines. A quoted cell may span several lines. A line with a wrong
    quote is a row with the fault "quotes", and the next row begins on the line below it. So is a
    line of several rows with CR alone between them. `width` is the number of columns, if it is
    known."""
    if quotes is not None:
        yield from _quoted_rows(lines, delimiter, quotes, width)
        return
    for line in lines:
        fault = line.fault or ("quotes" if has_rows(line.text, delimiter) else None)
        yield Row(tuple(line.text.split(delimiter)), line.number, fault, line.note)


def has_rows(text: str, delimiter: str) -> bool:
    """Return whether a line is several rows with CR alone between them."""
    return "\r" in text and all(delimiter in part for part in text.split("\r"))


def _quoted_rows(
    lines: Iterable[Line], delimiter: str, quotes: Quotes, width: int
) -> Iterator[Row]:
    csv.field_size_limit(MAX_LINE)
    rest, waiting, taken = iter(lines), deque[Line](), list[Line]()

    def texts() -> Iterator[str]:
        while waiting:
            taken.append(waiting.popleft())
            yield f"{taken[-1].text}\n"
        for line in rest:
            taken.append(line)
            yield f"{line.text}\n"

    def new_reader() -> Iterator[list[str]]:
        return csv.reader(
            texts(),
            delimiter=delimiter,
            quotechar=quotes.mark,
            escapechar=quotes.escape,
            skipinitialspace=True,
            strict=True,
        )

    reader = new_reader()
    while True:
        taken.clear()
        try:
            cells = next(reader)
            is_wrong = len(taken) > MIN_SWALLOWED and _are_rows(taken[1:-1], delimiter, width)
        except StopIteration:
            return
        except csv.Error:
            is_wrong = True
        first = taken[0]
        if is_wrong:
            yield Row((first.text,), first.number, first.fault or "quotes")
            waiting.extendleft(reversed(taken[1:]))
            reader = new_reader()
            continue
        fault, note = first.fault, first.note
        if len(taken) > 1:
            fault = next((line.fault for line in taken if line.fault), None)
            note = next((line.note for line in taken if line.note), None)
        yield Row(tuple(cells), first.number, fault, note)


def _are_rows(lines: Sequence[Line], delimiter: str, width: int) -> bool:
    """Return whether all lines inside a row are rows with all columns: a quote is not closed."""
    return width > 1 and all(line.text.count(delimiter) == width - 1 for line in lines)
