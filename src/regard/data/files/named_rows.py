"""Rows of files whose columns have names or types: JSON lines, workbooks and Parquet. The first row
is the header."""

from __future__ import annotations

import datetime
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.files.lines import Line, decoded
from regard.data.files.tables import Row, flat_fields
from regard.errors import UserError, install_command
from regard.files import MAX_WHOLE, open_bytes, read_bytes
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
MAX_CELLS = 50_000_000
"""Largest number of cells from the first to the last cell of a sheet."""
CELL = re.compile(rb'<c\b[^>/]{0,100}?\br="([A-Z]{1,3})([0-9]{1,7})"[^>/]{0,100}>')
"""Place of a cell with a value in a sheet."""
DIMENSION = re.compile(rb'<dimension ref="([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})"')
"""First and last cell of a sheet."""


def named_rows(path: Path, kind: TableFormat, sheet: str | None) -> Iterator[Row]:
    """Yield the rows of a file, the header first. UserError if it cannot be read, or if the library
    for it is not installed."""
    match kind:
        case "jsonl":
            return _json_rows(path)
        case "workbook":
            return _workbook_rows(path, sheet)
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
            yield Row(tuple(map(_text, names)), first[0][0].number)
        for line, value in chain(first, objects):
            yield Row(tuple(_text(value.get(name)) for name in names), line.number, line.fault)


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


def _workbook_rows(path: Path, sheet: str | None) -> Iterator[Row]:
    workbook, names = _open_workbook(path)
    if not names or (sheet is not None and sheet not in names):
        wanted = "sheet" if sheet is None else f"sheet {sheet!r} (--data.sheet)"
        raise UserError(f"{path} has no {wanted}: its sheets are {', '.join(names)[:200]}")
    try:
        rows = workbook.get_sheet_by_name(sheet or names[0]).to_python(skip_empty_area=False)
    except Exception as error:
        raise _damaged(path, error) from error
    for number, cells in enumerate(rows, start=1):
        if any(cell != "" for cell in cells):
            yield Row(tuple(map(_text, cells)), number)


def unread_sheets(path: Path, sheet: str | None) -> tuple[str, ...]:
    """Return the names of the visible sheets of a workbook that are not read."""
    workbook, names = _open_workbook(path)
    visible = [entry.name for entry in workbook.sheets_metadata if _is_visible(entry)]
    return tuple(name for name in names if name in visible and name != (sheet or names[0]))


def _open_workbook(path: Path) -> tuple[Any, list[str]]:
    """Return a workbook with the names of its sheets that have cells, hidden sheets last."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise _missing(path, "python-calamine") from error
    content = read_bytes(path)
    _check_size(content, path)
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = [sheet for sheet in workbook.sheets_metadata if "WorkSheet" in str(sheet.typ)]
    except Exception as error:  # the library raises many kinds
        raise _damaged(path, error) from error
    ordered = sorted(sheets, key=lambda sheet: not _is_visible(sheet))
    return workbook, [sheet.name for sheet in ordered]


def _is_visible(sheet: Any) -> bool:
    return "Visible" in str(sheet.visible).rpartition(".")[2]


def _check_size(content: bytes, path: Path) -> None:
    """Raise a UserError for a workbook that is too large when unpacked, or that has a cell too far
    from the others: the library stores all cells between them."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
            checked = sheets if size <= MAX_WHOLE else []
            num_cells = max((_num_cells(archive, name) for name in checked), default=0)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, zlib.error, EOFError) as error:
        raise _damaged(path, error) from error
    if num_cells > MAX_CELLS:
        raise UserError(
            f"{path} has a sheet of {num_cells:,} cells from the first to the last one: expected "
            f"at most {MAX_CELLS:,}; remove the cells far below or beside the table"
        )
    if size > MAX_WHOLE:
        raise UserError(
            f"{path} has {size:,} bytes when unpacked: expected at most {MAX_WHOLE:,}; save the "
            "sheet as CSV"
        )


def _num_cells(archive: zipfile.ZipFile, sheet: str) -> int:
    """Return the number of cells from the first to the last cell with a value. The places of the
    cells are read if the sheet does not say that it is small."""
    with archive.open(sheet) as file:
        content = file.read(1 << 12)
        if dimension := DIMENSION.search(content):
            num_cells = _area([(dimension[1], dimension[2]), (dimension[3], dimension[4])])
            if num_cells <= MAX_CELLS:
                return num_cells
        corners = set[tuple[bytes, bytes]]()
        while content:
            corners = _corners(corners | {(cell[1], cell[2]) for cell in CELL.finditer(content)})
            more = file.read(1 << 20)
            content = content[-200:] + more if more else b""
    return _area(corners)


def _corners(cells: Collection[tuple[bytes, bytes]]) -> set[tuple[bytes, bytes]]:
    """Return the cells with the least and the largest row and column."""
    if not cells:
        return set()
    rows = sorted(cells, key=lambda cell: int(cell[1]))
    columns = sorted(cells, key=lambda cell: (len(cell[0]), cell[0]))
    return {rows[0], rows[-1], columns[0], columns[-1]}


def _area(cells: Collection[tuple[bytes, bytes]]) -> int:
    """Return the number of cells of the smallest rectangle with these cells."""
    rows = [int(row) for _, row in cells]
    columns = [_column(letters) for letters, _ in cells]
    return (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1) if rows else 0


def _column(letters: bytes) -> int:
    """Return the number of a column, such as 28 for AB."""
    return reduce(lambda number, letter: 26 * number + letter - ord("A") + 1, letters, 0)


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import Table, parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing(path, "pyarrow") from error
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = _without_structs(file.schema_arrow.empty_table()).column_names
            yield Row(tuple(map(_text, names)), 0)
            for batch in file.iter_batches(MAX_BATCH):
                table = _without_structs(Table.from_batches([batch]))
                columns = [column.to_pylist() for column in table.columns]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield Row(tuple(map(_text, cells)), number)
    except UserError:
        raise
    except Exception as error:  # the library raises many kinds
        raise _damaged(path, error) from error


def _without_structs(table: Any) -> Any:
    """Return a table with a column for each field of a nested column."""
    for _ in range(MAX_DEPTH):
        names = table.column_names
        table = table.flatten()
        if table.column_names == names:
            break
    return table


def _text(value: Any) -> str:
    """Return a cell as text: numbers without a fraction as whole numbers, dates in ISO format,
    bytes as UTF-8, and missing values, or bytes that are not UTF-8, as empty texts."""
    match value:
        case None:
            return ""
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool():
            return str(value).lower()
        case float() if math.isnan(value):
            return ""
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case bytes():
            return _decoded(value)
        case list():
            return " ".join(map(_text, value))
        case _:
            return str(value)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _missing(path: Path, package: str) -> UserError:
    return UserError(f"{path} needs {package}: {install_command(package)}")


def _damaged(path: Path, error: Exception) -> UserError:
    problem = " ".join(str(error).split())[:120]
    return UserError(f"cannot read {path}: {problem or type(error).__name__}")
