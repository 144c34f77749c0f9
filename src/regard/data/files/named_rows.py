"""Rows of files whose columns have names or types: JSON lines, workbooks and Parquet. The first row
is the header."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.files.cells import cell_text, damaged_file, missing_package
from regard.data.files.lines import Line, decoded
from regard.data.files.tables import Row, flat_fields
from regard.data.files.workbooks import workbook_rows
from regard.errors import UserError
from regard.files import open_bytes
from regard.names import TableFormat

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
"""Formats by the suffix of the file name."""
TITLES: dict[TableFormat, str] = {
    "jsonl": "JSON lines",
    "workbook": "workbook",
    "parquet": "Parquet",
}
MAX_BATCH = 1024
"""Number of rows of a Parquet file that are held in memory."""
NUM_OBJECTS = 1000
"""Number of JSON objects whose names are columns."""
MAX_DEPTH = 20
"""Number of levels of nested columns."""


def named_rows(path: Path, kind: TableFormat, sheet: str | None) -> Iterator[Row]:
    """Yield the rows of a file, the header first. UserError if it cannot be read, or if the library
    for it is not installed."""
    match kind:
        case "jsonl":
            return _json_rows(path)
        case "workbook":
            return workbook_rows(path, sheet)
        case _:
            return _parquet_rows(path)


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of JSON objects, one a line. The columns are the names of the first
    `NUM_OBJECTS` objects."""
    with open_bytes(path) as file:
        objects = _json_objects(decoded(file, path), path)
        first = list(islice(objects, NUM_OBJECTS))
        names = list(dict.fromkeys(name for _, value in first for name in value))
        if names:
            yield Row(tuple(map(cell_text, names)), first[0][0].number)
        for line, value in chain(first, objects):
            yield Row(tuple(cell_text(value.get(name)) for name in names), line.number, line.fault)


def _json_objects(lines: Iterable[Line], path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Yield the lines that are not blank with their objects. UserError for anything else."""
    for line in lines:
        if not line.text.strip():
            continue
        try:
            value = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            problem = str(error)[:80]
            raise UserError(f"{path}, line {line.number} is not JSON: {problem}") from error
        if not isinstance(value, dict) or not value:
            raise UserError(
                f"{path}, line {line.number}: expected an object such as "
                '{"source": "...", "target": "..."}, got '
                f"{line.text[:60]!r}"
            )
        yield line, dict(flat_fields(value))


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import Table, parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_package(path, "pyarrow") from error
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = _without_structs(file.schema_arrow.empty_table()).column_names
            yield Row(tuple(map(cell_text, names)), 0)
            for batch in file.iter_batches(MAX_BATCH):
                table = _without_structs(Table.from_batches([batch]))
                columns = [column.to_pylist() for column in table.columns]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield Row(tuple(map(cell_text, cells)), number)
    except UserError:
        raise
    except Exception as error:  # the library raises many kinds
        raise damaged_file(path, error) from error


def _without_structs(table: Any) -> Any:
    """Return a table with a column for each field of a nested column."""
    for _ in range(MAX_DEPTH):
        names = table.column_names
        table = table.flatten()
        if table.column_names == names:
            break
    return table
