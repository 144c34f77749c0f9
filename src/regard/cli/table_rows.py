"""Rows of a table as input, and the table with further columns as output."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, runtime_checkable

from regard.cli.lines import opened
from regard.cli.output import warn
from regard.corpora.table_settings import columns, settings_for
from regard.data.files.lines import numbers_of
from regard.data.files.named_rows import SUFFIXES
from regard.data.files.tables import SEPARATORS, TableSettings, suffix_of
from regard.errors import UserError
from regard.names import FORMAT
from regard.storage.files import whole

if TYPE_CHECKING:
    from regard.config import Data
    from regard.data.files.source_table import AddedColumn, SourceTable
    from regard.data.files.tables import Row
    from regard.inference.parts import Items, Part

ROWS_AT_A_TIME = 512
PARQUET = ".parquet"
OPTIONS = ("source_column", "delimiter", "header", "sheet")
"""Options that only tables have."""


@runtime_checkable
class TableOptions(Protocol):
    """Options of a command that reads tables."""

    @property
    def file(self) -> str: ...
    @property
    def source_column(self) -> str | None: ...
    @property
    def encoding(self) -> str | None: ...
    @property
    def delimiter(self) -> str | None: ...
    @property
    def header(self) -> bool | None: ...
    @property
    def sheet(self) -> str | None: ...
    @property
    def output(self) -> Path | None: ...


def settings_of(options: TableOptions, data: Data) -> TableSettings:
    """Return the settings by which a table is read: those of the options, then those of the
    training."""
    typed = {name: getattr(options, name) for name in FORMAT}
    typed["source_columns"] = columns(options.source_column)
    changed = {name: value for name, value in typed.items() if value is not None}
    settings = replace(settings_for(Path(options.file), data), target_columns=None)
    return replace(settings, **changed)


def reject_table_options(options: TableOptions) -> None:
    """Raise a UserError if an option about tables is set, or the output has the name of a table."""
    check_lines_output(options.output, f"each line of {options.file} has one line of the output")
    for name in OPTIONS:
        value = getattr(options, name)
        if value is not None:
            option = f"{'no-' if value is False else ''}{name.replace('_', '-')}"
            raise UserError(
                f"--{option} is for tables, but each line of {options.file} is one "
                "source: leave it out, or name a .csv or .tsv file"
            )


def check_lines_output(path: Path | None, lines: str) -> None:
    """Raise a UserError if the output has the name of a table other than .tsv. `lines`: subject of
    the message."""
    if path is not None and suffix_of(path) in {".csv", ".json", *SUFFIXES}:
        raise UserError(f"{path} is the name of a table, but {lines}: name a .txt file")


def check_table_output(path: Path | None) -> None:
    """Raise a UserError if a table cannot be written in the format that the file name has."""
    if path is not None and suffix_of(path) in {".json", *SUFFIXES} - {PARQUET}:
        raise UserError(f"cannot write {path}: name a .csv, .tsv or .parquet file for the table")


def table_items(table: SourceTable) -> Items[Row]:
    """Return the rows of a table below the header."""
    from regard.inference.parts import Items

    return Items(table.rows)


def row_chunks(table: SourceTable, rows: Iterator[Row]) -> Iterator[tuple[list[Row], list[str]]]:
    """Yield lists of these rows of a table with their sources."""
    while chunk := list(islice(rows, ROWS_AT_A_TIME)):
        yield chunk, [table.source_of(row) for row in chunk]


@runtime_checkable
class RowWriter(Protocol):
    """Writer of a table with further columns."""

    def add(self, row: Row, cells: Sequence[str]) -> None:
        """Write a row with the cells of the further columns."""
        ...


def open_wider_table(
    files: ExitStack,
    table: SourceTable,
    path: Path | None,
    added: Sequence[AddedColumn],
    part: Part | None = None,
) -> RowWriter:
    """Open a table with further columns, until `files` close. None: the standard output."""
    if path is None or path.suffix.lower() != PARQUET:
        return WiderTable(opened(files, path), table, path, added, part)
    from regard.data.files.parquet_output import ParquetOutput

    unfinished = files.enter_context(whole(path))
    first_row = 0 if part is None else part.begin
    return files.enter_context(ParquetOutput(unfinished, table, added, first_row))


class WiderTable:
    """Table with further columns, written row by row."""

    def __init__(
        self,
        file: TextIO | None,
        table: SourceTable,
        path: Path | None,
        added: Sequence[AddedColumn],
        part: Part | None = None,
    ) -> None:
        """Write the header, if the table has one, with the names of the further columns; of parts,
        only the first has it. None: the file is the standard output."""
        delimiter = _delimiter(table, path)
        self._table = table
        self._writer: Any = csv.writer(file or sys.stdout, delimiter=delimiter, lineterminator="\n")
        if table.header is not None and (part is None or part.number == 0):
            self._writer.writerow([*table.header, *(column.name for column in added)])

    def add(self, row: Row, cells: Sequence[str]) -> None:
        """Write a row with the cells of the further columns."""
        padding = [""] * (self._table.width - len(row.cells))
        self._writer.writerow([*row.cells, *padding, *cells])


@dataclass
class RowFaults:
    """Rows that are reported after the last one."""

    shifted: list[int] = field(default_factory=list)
    """Lines of rows with more cells than columns, or with wrong quotes, which have no source."""
    without_object: list[int] = field(default_factory=list)
    """Lines of a file of JSON that are no object, which have no source."""
    wide: list[int] = field(default_factory=list)
    """Lines of other rows with more cells than the first row."""
    num_blank: int = 0

    @property
    def num_refused(self) -> int:
        """Number of rows that cannot be read."""
        return len(self.shifted) + len(self.without_object)

    def add(self, table: SourceTable, row: Row, source: str) -> None:
        """Add a row of a table if it has no source, or more cells than the first row."""
        if row.fault in ("many columns", "quotes"):
            self.shifted.append(row.line)
            return
        if row.fault == "not JSON":
            self.without_object.append(row.line)
            return
        self.num_blank += not source
        if len(row.cells) > table.width:
            self.wide.append(row.line)

    def warn(self, table: SourceTable) -> None:
        """Report the rows of the table."""
        if titles := table.titles:
            warn(titles)
        if sheets := ", ".join(table.unread_sheets):
            warn(f"{table.path}: sheets that are not read: {sheets} (--sheet NAME)")
        if self.shifted:
            warn(
                f"{table.path}: {_rows(len(self.shifted))} more cells than the table has "
                f"columns, or wrong quotes ({numbers_of(self.shifted)}), and no prediction: quote "
                "texts with commas or other delimiters"
            )
        if self.without_object:
            warn(
                f"{table.path}: {_rows(len(self.without_object))} no JSON object "
                f"({numbers_of(self.without_object)}), and no prediction: correct the line, such "
                'as {"source": "..."}'
            )
        if self.wide:
            warn(
                f"{table.path}: {_rows(len(self.wide))} more than {table.width} columns "
                f"({numbers_of(self.wide)}): their predictions come after these"
            )
        if self.num_blank:
            warn(f"{table.path}: {_rows(self.num_blank)} no source")


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number} rows have"


def _delimiter(table: SourceTable, output: Path | None) -> str:
    """Return the delimiter of the output: tabs for .tsv, otherwise that of the table."""
    suffix = "" if output is None else output.suffix.lower()
    if suffix == ".tsv":
        return SEPARATORS[suffix]
    own = table.form.delimiter or ","
    own = own if len(own) == 1 else "\t"
    return "," if suffix == ".csv" and own == "\t" else own
