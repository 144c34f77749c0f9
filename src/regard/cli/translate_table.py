"""Tables of sources to translate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.table_rows import OPTIONS, PARQUET, TableOptions, settings_of
from regard.data.files.source_table import SourceTable, is_table
from regard.data.files.tables import SEPARATORS, TableSettings, find_column, suffix_of
from regard.data.recognition import formats
from regard.data.recognition.header import SOURCE_NAMES, TEXT_NAMES

if TYPE_CHECKING:
    from regard.config import DataConfig

NAME = "prediction"
"""Name of the added column if the run has no name of its targets."""
NAMES = tuple(dict.fromkeys((*SOURCE_NAMES, *TEXT_NAMES)))
"""Usual names of the column of the sources, the most usual first."""


def find_table(options: TableOptions, data: DataConfig) -> SourceTable | None:
    """Return the table that the options name, or None for lines. A .tsv file has lines unless an
    option is about tables or the first row names the column of the sources."""
    path = Path(options.file)
    if options.file == "-" or not is_table(path):
        return None
    settings = settings_of(options, data)
    has_option = any(getattr(options, name) is not None for name in OPTIONS)
    if suffix_of(path) == ".tsv" and not has_option and not _has_name(path, settings):
        return None
    return SourceTable.open(path, settings, NAMES)


def is_table_name(output: Path | None) -> bool:
    """Return whether a file to write is a table (.csv, .tsv or .parquet)."""
    return output is not None and output.suffix.lower() in (*SEPARATORS, PARQUET)


def target_name(table: SourceTable, data: DataConfig) -> str:
    """Return the name of the column of translations: that of the targets in training, unless it is
    a number or the table has such a column."""
    name = data.target_column
    if name is None or name.isdecimal() or find_column(table.header or (), [name]) is not None:
        return NAME
    return name


def _has_name(path: Path, settings: TableSettings) -> bool:
    """Return whether the first row has the column of the sources in training, or, of several
    columns, a usual name."""
    form = formats.recognise(path, settings)
    cells = next((row.cells for row in formats.first_rows(path, form, settings, 1)), ())
    names = settings.source_columns
    if names is None and len(cells) > 1 and not settings.feature_columns:
        names = NAMES
    return find_column(cells, names or ()) is not None
