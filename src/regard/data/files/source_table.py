"""Tables with a column of sources, for commands that add columns to a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from regard.characters import is_blank_text
from regard.data.files.lines import LEGACY_ENCODING
from regard.data.files.named_rows import SUFFIXES, has_json_records
from regard.data.files.samples import sample_rows
from regard.data.files.tables import (
    SEPARATORS,
    Row,
    TableSettings,
    find_column,
    require_column,
    show_cells,
    suffix_of,
)
from regard.data.files.workbooks import unread_sheets
from regard.data.recognition import formats
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.header import TEXT_NAMES
from regard.errors import UserError

OPTION = "--source-column"


class AddedColumn(NamedTuple):
    """Column that a command adds to a table."""

    name: str
    is_number: bool = False
    """Whether all cells are numbers or blank. A format with types then has a column of numbers."""


@dataclass(frozen=True)
class SourceTable:
    """Table with a column of sources, and columns of their features."""

    path: Path
    form: FileFormat
    settings: TableSettings
    header: tuple[str, ...] | None
    width: int
    """Number of columns of the first row."""
    source: int
    """Column of the sources, from 0."""
    features: tuple[int, ...] = ()

    @property
    def titles(self) -> str:
        """Line that names the rows above the table; blank if there are none."""
        return formats.titles_line(self.path, self.form, self.settings)

    @property
    def unread_sheets(self) -> tuple[str, ...]:
        """Sheets of a workbook that are not read."""
        is_workbook = self.form.kind == "workbook"
        return unread_sheets(self.path, self.settings.sheet) if is_workbook else ()

    @classmethod
    def open(
        cls, path: Path, settings: TableSettings, names: Sequence[str] = TEXT_NAMES
    ) -> SourceTable:
        """Return a table with the columns of the settings, or with usual names: for sources,
        `names`. UserError if the table cannot be read, is empty, or has no column of sources."""
        form = formats.recognise(path, settings)
        if form.delimiter is None and form.kind == "text":
            form = replace(form, delimiter="\t")
        rows = sample_rows(path, form, settings).rows
        if not rows:
            raise UserError(f"{path} is empty: expected rows with a source each")
        first = rows[0]
        is_header = form.has_header(rows, settings) or _is_name(rows, settings, names)
        header = first if is_header else None
        source = _source(path, settings, header, first, names)
        features = tuple(
            require_column(path, name, "--data.feature-columns", header, first)
            for name in settings.feature_columns or ()
        )
        return cls(path, form, settings, header, len(first), source, features)

    def rows(self) -> Iterator[Row]:
        """Yield all rows below the header, in constant memory."""
        rows = formats.read_rows(self.path, self.form, self.settings, otherwise=LEGACY_ENCODING)
        is_header = self.header is not None
        for row in rows:
            if row.fault == "title" or (self.form.dictionary and row.fault == "comment"):
                continue
            if is_header and formats.is_filled(row):
                is_header = False
            elif not is_header:
                yield row

    def source_of(self, row: Row) -> str:
        """Return the source of a row on one line, with the features that the row has; blank without
        a source, or if the cells may be shifted."""
        is_short = row.fault in formats.NOT_READ or len(row.cells) <= self.source
        if is_short or is_blank_text(row.cells[self.source]):
            return ""
        columns = [each for each in (self.source, *self.features) if each < len(row.cells)]
        return "\t".join(re.sub(r"\s+", " ", row.cells[column]).strip() for column in columns)


def is_table(path: Path) -> bool:
    """Return whether a file name is that of a table: CSV, TSV, JSON lines, a workbook or Parquet;
    or the file has an array of JSON objects."""
    return suffix_of(path) in (*SEPARATORS, *SUFFIXES) or has_json_records(path)


def _is_name(rows: Sequence[Sequence[str]], settings: TableSettings, names: Sequence[str]) -> bool:
    """Return whether the first row has a usual name of sources that no row below has in its
    column."""
    column = find_column(rows[0], names)
    if column is None or settings.header is not None or settings.source_columns:
        return False
    return not any(len(row) > column and row[column] == rows[0][column] for row in rows[1:])


def _source(
    path: Path,
    settings: TableSettings,
    header: Sequence[str] | None,
    first: Sequence[str],
    names: Sequence[str],
) -> int:
    """Return the column of the sources. The only column of a table needs no name."""
    if len(first) == 1:
        return 0
    (name, *_) = settings.source_columns or ("",)
    if name:
        return require_column(path, name, OPTION, header, first)
    if header is None:
        return 0
    number = find_column(header, names)
    if number is None:
        raise UserError(
            f"{path}: name the column of the sources with {OPTION}: the first row is "
            f"{show_cells(first)}"
        )
    return number
