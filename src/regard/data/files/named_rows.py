"""Rows of files whose columns have names or types: JSON lines, arrays of JSON objects, workbooks
and Parquet. The first row is the header."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.files.cells import cell_text, damaged_file, missing_package
from regard.data.files.lines import Line, decoded
from regard.data.files.tables import Row, flat_fields, suffix_of
from regard.data.files.workbooks import workbook_rows
from regard.errors import UserError
from regard.files import open_bytes, read_bytes
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
    "json": "JSON array",
    "workbook": "workbook",
    "parquet": "Parquet",
}
MAX_BATCH = 1024
"""Number of rows of a Parquet file that are held in memory."""
JSON_ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{")
"""Beginning of an array of objects."""
MAX_BEGINNING = 4096
"""Number of bytes in which an array of objects begins."""
MAX_JSON = 1 << 29
"""Largest number of bytes of a JSON array, which is held in memory."""
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
        case "json":
            return _rows_of(_array_objects(path))
        case "workbook":
            return workbook_rows(path, sheet)
        case _:
            return _parquet_rows(path)


def is_json_array(path: Path) -> bool:
    """Return whether a file named .json has an array of objects. UserError if it cannot be read."""
    if suffix_of(path) != ".json" or not path.is_file():
        return False
    with open_bytes(path) as file:
        try:
            return JSON_ARRAY.match(file.read(MAX_BEGINNING)) is not None
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"cannot read {path}: {error}") from error


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of lines with a JSON object each."""
    with open_bytes(path) as file:
        yield from _rows_of(_json_objects(decoded(file, path), path))


def _rows_of(objects: Iterator[tuple[Line, dict[str, Any]]]) -> Iterator[Row]:
    """Yield the rows of objects. The columns are the names of the first `NUM_OBJECTS` objects."""
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
            raise _wrong_json(path, line.number, error) from error
        yield line, _fields(value, path, line)


def _array_objects(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Yield the objects of an array with the lines in which they begin. UserError for anything
    else."""
    try:
        text = read_bytes(path, MAX_JSON).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8, the encoding of JSON: save it as UTF-8") from error
    decoder = json.JSONDecoder()
    number, end, expected = 1, 0, "["
    while True:
        number, end = _next_place(text, number, end)
        mark = text[end : end + 1]
        if not mark or mark not in expected:
            raise _wrong_json(path, number, f"expected {' or '.join(expected)}, got {mark!r}")
        number, end = _next_place(text, number, end + 1)
        if mark == "]":
            break
        try:
            value, after = decoder.raw_decode(text, end)
        except (ValueError, RecursionError) as error:
            raise _wrong_json(path, number, error) from error
        line = Line(number, text[end : min(after, end + 60)], True)
        yield line, _fields(value, path, line)
        number, end, expected = number + text.count("\n", end, after), after, ",]"
    if text[end:].strip():
        raise _wrong_json(path, number, "text after the array")


def _next_place(text: str, number: int, start: int) -> tuple[int, int]:
    """Return the number of the line and the position of the next character that is no space."""
    match = re.compile(r"\s*").match(text, start)
    end = match.end() if match else start
    return number + text.count("\n", start, end), end


def _fields(value: object, path: Path, line: Line) -> dict[str, Any]:
    """Return the fields of an object. UserError for another value, or an empty object."""
    if not isinstance(value, dict) or not value:
        raise UserError(
            f"{path}, line {line.number}: expected an object such as "
            '{"source": "...", "target": "..."}, got '
            f"{line.text[:60]!r}"
        )
    return dict(flat_fields(value))


def _wrong_json(path: Path, line: int, problem: object) -> UserError:
    return UserError(f"{path}, line {line} is not JSON: {str(problem)[:80]}")


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
