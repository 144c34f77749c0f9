"""Rows of files whose columns have names or types: JSON lines, workbooks and Parquet. The first row
is the header."""

from __future__ import annotations

import datetime
import io
import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.files.lines import decoded
from regard.data.files.tables import Row
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
    """Yield the rows of JSON objects or arrays, one a line. Objects have the names of the first
    one."""
    names: list[str] | None = None
    with open_bytes(path) as file:
        for line in decoded(file, path):
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
            if names is None:
                names = list(value)
                yield Row(tuple(map(_text, names)), line.number)
            yield Row(tuple(_text(value.get(name)) for name in names), line.number, line.fault)


def _workbook_rows(path: Path, sheet: str | None) -> Iterator[Row]:
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise _missing(path, "python-calamine") from error
    content = read_bytes(path)
    _check_size(content, path)
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
        names = workbook.sheet_names
    except Exception as error:  # the library raises many kinds
        raise _damaged(path, error) from error
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


def _check_size(content: bytes, path: Path) -> None:
    """Raise a UserError for a workbook that is too large when unpacked."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise _damaged(path, error) from error
    if size > MAX_WHOLE:
        raise UserError(
            f"{path} has {size:,} bytes when unpacked: expected at most {MAX_WHOLE:,}; save the "
            "sheet as CSV"
        )


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing(path, "pyarrow") from error
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            yield Row(tuple(map(_text, names)), 0)
            for batch in file.iter_batches(MAX_BATCH):
                columns = [column.to_pylist() for column in batch.columns]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield Row(tuple(map(_text, cells)), number)
    except UserError:
        raise
    except Exception as error:  # the library raises many kinds
        raise _damaged(path, error) from error


def _text(value: Any) -> str:
    """Return a cell as text: numbers without a fraction as whole numbers, dates in ISO format, and
    missing values as empty texts."""
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
        case list():
            return " ".join(map(_text, value))
        case _:
            return str(value)


def _missing(path: Path, package: str) -> UserError:
    return UserError(f"{path} needs {package}: {install_command(package)}")


def _damaged(path: Path, error: Exception) -> UserError:
    problem = " ".join(str(error).split())[:120]
    return UserError(f"cannot read {path}: {problem or type(error).__name__}")
