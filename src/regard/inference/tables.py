"""Rows of a table as input, and the table with further columns as output."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, runtime_checkable

from regard.data.files.tables import SEPARATORS, SUFFIXES, TableSettings, suffix_of
from regard.errors import UserError
from regard.inference.lines import LineSources, Source
from regard.inference.parts import Items, Part
from regard.storage.files import whole

if TYPE_CHECKING:
    from regard.config import Data
    from regard.data.files.source_table import AddedColumn, SourceTable
    from regard.data.files.tables import Row

ROWS_AT_A_TIME = 512
PARQUET = ".parquet"
TABLE_OPTIONS = ("source_column", "delimiter", "header", "sheet")
"""Options that only tables have."""


@dataclass(frozen=True)
class SourceFile:
    """File of sources, and its format as far as the user has set it."""

    file: str
    """Name of the file; "-" is the standard input."""
    source_column: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    sheet: str | None = None
    follow: bool = False
    """Whether lines are processed one by one, and the file is read as it grows."""

    @property
    def table_option(self) -> str | None:
        """Name of an option that only tables have, if one is set."""
        return next((name for name in TABLE_OPTIONS if getattr(self, name) is not None), None)

    def settings(self, data: Data) -> TableSettings:
        """Return the settings by which a table is read: those of the user, then those of the
        training."""
        from regard.corpora.table_settings import settings_for

        return replace(settings_for(Path(self.file), data, self), target_columns=None)


def lines_of(
    file: SourceFile, output: Path | None, size: int, warn: Callable[[str], None]
) -> LineSources:
    """Return the lines of a file, of which `size` are processed together. UserError if an option
    about tables is set, or the output has the name of a table."""
    check_lines_output(output, f"each line of {file.file} has one line of the output")
    if name := file.table_option:
        option = f"{'no-' if getattr(file, name) is False else ''}{name.replace('_', '-')}"
        raise UserError(
            f"--{option} is for tables, but each line of {file.file} is one "
            "source: leave it out, or name a .csv or .tsv file"
        )
    return LineSources.of(file, size, warn)


def rows_of(
    file: SourceFile, data: Data, output: Path | None, names: Sequence[str]
) -> Items[Source]:
    """Return the rows of a table below the header. `names` are usual names of the column of the
    sources. UserError for a table that cannot be read, or an output that cannot be written."""
    from regard.data.files.source_table import SourceTable

    if file.follow:
        raise UserError(f"--follow is for lines, but {file.file} is a table: leave it out")
    if output is not None and suffix_of(output) in {".json", *SUFFIXES} - {PARQUET}:
        raise UserError(f"cannot write {output}: name a .csv, .tsv or .parquet file for the table")
    table = SourceTable.open(Path(file.file), file.settings(data), names)

    def sources() -> Iterator[Source]:
        for number, row in enumerate(table.rows()):
            yield Source(number, table.source_of(row), row.line, row)

    return Items(sources, ROWS_AT_A_TIME, table)


def check_lines_output(path: Path | None, lines: str) -> None:
    """Raise a UserError if the output has the name of a table other than .tsv. `lines`: subject of
    the message."""
    if path is not None and suffix_of(path) in {".csv", ".json", *SUFFIXES}:
        raise UserError(f"{path} is the name of a table, but {lines}: name a .txt file")


def is_table_name(output: Path | None) -> bool:
    """Return whether a file to write is a table (.csv, .tsv or .parquet)."""
    return output is not None and output.suffix.lower() in (*SEPARATORS, PARQUET)


@runtime_checkable
class RowWriter(Protocol):
    """Writer of a table with further columns."""

    def add(self, row: Row, cells: Sequence[str]) -> None:
        """Write a row with the cells of the further columns."""
        ...


def opened(files: ExitStack, path: Path | None) -> TextIO | None:
    """Open a file to write. It is complete when `files` close, or does not exist."""
    if path is None:
        return None
    unfinished = files.enter_context(whole(path))
    return files.enter_context(unfinished.open("w", encoding="utf8"))


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


def _delimiter(table: SourceTable, output: Path | None) -> str:
    """Return the delimiter of the output: tabs for .tsv, otherwise that of the table."""
    suffix = "" if output is None else output.suffix.lower()
    if suffix == ".tsv":
        return SEPARATORS[suffix]
    own = table.form.delimiter or ","
    own = own if len(own) == 1 else "\t"
    return "," if suffix == ".csv" and own == "\t" else own
