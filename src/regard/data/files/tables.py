"""Rows of files with columns, with the numbers of their first lines, and columns by name or
number."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files.lines import MAX_LINE, Line
from regard.errors import UserError
from regard.names import DecimalMark, Fault

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Usual separators of columns by the suffix of the file name."""
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


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of a row."""

    cells: tuple[str, ...]
    line: int
    """Number of the first line; in a workbook, of the row."""
    fault: Fault | None = None
    """Reason why a line of the row cannot be used."""


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


def require_column(
    path: Path, name: str, option: str, header: Sequence[str] | None, first: Sequence[str]
) -> int:
    """Return the column with this name, or with this number from 1. UserError if there is neither.
    The option named the column, and `first` is the first row."""
    column = column_number(name, header, len(first))
    if column is None:
        raise missing_column(path, name, option, first)
    return column


def column_name(header: Sequence[str] | None, number: int) -> str:
    """Return the name of a column (from 0), or its number from 1 if no name identifies it."""
    header = header or ()
    name = header[number].strip() if number < len(header) else ""
    is_unique = [cell.strip().lower() for cell in header].count(name.lower()) == 1
    is_name = name and is_unique and name.isprintable()
    return name if is_name else str(number + 1)


def missing_column(path: Path, name: str, option: str, first: Sequence[str]) -> UserError:
    """Return the error for a column of an option that a file with this first row lacks."""
    row = f"the first row is {show_cells(first)}" if any(first) else "it is empty"
    return UserError(f"{path} has no column {name!r} ({option}): {row}")


def flat_fields(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of an object. A name inside an object has the name of that object
    and a dot before it."""
    for name, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from flat_fields(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


def is_blank(cells: Iterable[str]) -> bool:
    """Return whether no cell has a text."""
    return not any(cell.strip() for cell in cells)


def show_cells(cells: Sequence[str]) -> str:
    """Return the cells of a row as text for a message."""
    shown = ", ".join(" ".join(cell.split())[:40] for cell in cells[:SHOWN_CELLS])
    return f"{shown}, …" if len(cells) > SHOWN_CELLS else shown


def table_rows(
    lines: Iterable[Line], path: Path, delimiter: str, *, has_quotes: bool
) -> Iterator[Row]:
    """Yield the rows of delimited lines. A quoted cell may span several lines. UserError if a quote
    is not closed."""
    if not has_quotes:
        for line in lines:
            yield Row(tuple(line.text.split(delimiter)), line.number, line.fault)
        return
    csv.field_size_limit(MAX_LINE)
    faults = dict[int, Fault]()

    def texts() -> Iterator[str]:
        for line in lines:
            if line.fault:
                faults[line.number] = line.fault
            yield f"{line.text}\n"

    reader = csv.reader(texts(), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = str(error).partition(" - ")[0]
            raise UserError(
                f"cannot read {path} at line {first}: {problem}; check the quotes and the line end "
                "of this row"
            ) from error
        last = reader.line_num + 1
        fault = next(
            (faults.pop(number) for number in range(first, last) if number in faults), None
        )
        yield Row(tuple(cells), first, fault)
