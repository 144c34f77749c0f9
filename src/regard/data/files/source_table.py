"""Tables with a column of sources, for commands that add columns to a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.characters import is_blank_text
from regard.data.files.lines import LEGACY_ENCODING
from regard.data.files.named_rows import has_json_records
from regard.data.files.tables import SEPARATORS, SUFFIXES, Row, TableSettings, suffix_of
from regard.data.files.workbooks import unread_sheets
from regard.data.recognition import formats
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.header import TEXT_NAMES
from regard.data.recognition.table import numbers_of_columns, open_table, source_column
from regard.errors import UserError


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
        table = open_table(path, settings, names)
        if not table.first:
            raise UserError(f"{path} is empty: expected rows with a source each")
        source = source_column(table, settings, names)
        features = numbers_of_columns(table, "feature", settings.feature_columns or ())
        return cls(path, table.form, settings, table.header, table.width, source, features)

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
