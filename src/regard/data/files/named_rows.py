"""Rows of files whose columns have names or types: JSON lines, arrays of JSON objects, workbooks
and Parquet. The first row is the header."""

from __future__ import annotations

import io
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.files.blocks import blocks_of
from regard.data.files.cells import cell_text, damaged_file, missing_package
from regard.data.files.lines import Line, decoded
from regard.data.files.tables import Row, flat_fields, suffix_of
from regard.data.files.workbooks import workbook_rows
from regard.errors import UserError
from regard.names import TableFormat
from regard.storage.files import open_bytes, read_bytes

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
JSON_OBJECT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"')
"""Beginning of an object that has fields."""
SPACES = re.compile(r"\s*")
MEMBER = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
"""Name of a field, before its value."""
AFTER_MEMBER = re.compile(r"\s*(?:,|(\}\s*\Z))")
"""Comma after a field, or the end of an object and of its file."""
DECODER = json.JSONDecoder()
MAX_BEGINNING = 4096
"""Number of bytes in which an array of objects begins."""
MAX_JSON = 1 << 29
"""Largest number of bytes of a JSON array, which is held in memory."""
MAX_WRONG = 0.1
"""Share of lines without an object above which a file is not read."""
NUM_OBJECTS, NUM_OBJECTS_PER_BLOCK = 1000, 4
"""Numbers of JSON objects whose names are columns: first ones, and those of each block."""
BETWEEN = r"\}\s*,\s*(?=\{)"
"""Pattern between two objects of an array."""
BETWEEN_OBJECTS, BETWEEN_LINES = re.compile(BETWEEN), re.compile(r"\n\s*(?=\{)")
MAX_TAKEN = 1 << 16
"""Number of rows of a Parquet file from which rows are taken together."""
MAX_DEPTH = 20
"""Number of levels of nested columns."""


def named_rows(
    path: Path, kind: TableFormat, sheet: str | None, content: bytes | None = None
) -> Iterator[Row]:
    """Yield the rows of a file, the header first. `content` are the first bytes of JSON lines, if
    they are known. UserError if the file cannot be read, or if the library for it is not
    installed."""
    match kind:
        case "jsonl":
            return _json_rows(path, content)
        case "json":
            return _rows_of(_array_objects(path), path, "json")
        case "workbook":
            return workbook_rows(path, sheet)
        case _:
            return _parquet_rows(path)


def has_json_records(path: Path) -> bool:
    """Return whether a file named .json has an array of objects, or an object with one such array.
    Files of captions, which have a list of images, have none. UserError if the file cannot be
    read."""
    if suffix_of(path) != ".json" or not path.is_file():
        return False
    beginning = blocks_of(path).beginning[:MAX_BEGINNING]
    if JSON_ARRAY.match(beginning):
        return True
    if not JSON_OBJECT.match(beginning):
        return False
    status = path.stat()
    return _has_records(path, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)
def _has_records(path: Path, stamp: tuple[int, int]) -> bool:
    """Return whether a file with an object has one list of objects."""
    del stamp  # part of the key: a changed file is read again
    return _place_of_records(_json_text(path)) is not None


def _place_of_records(text: str) -> int | None:
    """Return the position of the only list of objects inside the object that a text is. None if it
    has no such list, more than one, or a list of images."""
    with suppress(ValueError, RecursionError):
        end, places = text.index("{") + 1, list[int]()
        while (member := MEMBER.match(text, end)) and member[1] != "images":
            value, end = DECODER.raw_decode(text, member.end())
            if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
                places.append(member.end())
            after = AFTER_MEMBER.match(text, end)
            if after is None or after[1]:
                return places[0] if after and len(places) == 1 else None
            end = after.end()
    return None


def _json_rows(path: Path, content: bytes | None) -> Iterator[Row]:
    """Yield the rows of lines with a JSON object each."""
    with open_bytes(path) if content is None else io.BytesIO(content) as file:
        objects = _json_objects(decoded(file, path), path)
        first = list(islice(objects, NUM_OBJECTS))
        wrong = [value for _, value in first if isinstance(value, UserError)]
        if wrong and len(wrong) > MAX_WRONG * len(first):
            raise wrong[0]
        yield from _rows_of(chain(first, objects), path, "jsonl")


def _rows_of(
    objects: Iterator[tuple[Line, dict[str, Any] | UserError]], path: Path, kind: TableFormat
) -> Iterator[Row]:
    """Yield the rows of objects. The columns are the names of the first `NUM_OBJECTS` objects, and
    of further objects at equal distances in the file."""
    first = list(islice(objects, NUM_OBJECTS))
    good = [(line, value) for line, value in first if not isinstance(value, UserError)]
    names = dict.fromkeys(name for _, value in good for name in value)
    if len(first) == NUM_OBJECTS and path.is_file():
        names |= dict.fromkeys(_names_beyond(path, kind, frozenset(names)))
    if names:
        yield Row(tuple(map(cell_text, names)), good[0][0].number)
    for line, value in chain(first, objects):
        if isinstance(value, UserError):
            yield Row((line.text,), line.number, "not JSON")
            continue
        yield Row(tuple(cell_text(value.get(name)) for name in names), line.number, line.fault)


def _names_beyond(path: Path, kind: TableFormat, known: Set[str]) -> Iterator[str]:
    """Yield the names of objects in all parts of a file that have a known name too. Objects inside
    the objects of an array have other names."""
    for content in blocks_of(path).contents():
        objects = objects_in(content.decode("utf-8", "ignore"), kind)
        for value in islice(objects, NUM_OBJECTS_PER_BLOCK):
            if known & value.keys():
                yield from value


def objects_in(text: str, kind: TableFormat) -> Iterator[dict[str, Any]]:
    """Yield the fields of the complete objects in a part of JSON lines, or of an array."""
    between = BETWEEN_LINES if kind == "jsonl" else BETWEEN_OBJECTS
    for match in between.finditer(text):
        with suppress(ValueError, RecursionError):
            value, _ = DECODER.raw_decode(text, match.end())
            if isinstance(value, dict):
                yield dict(flat_fields(value))


def _json_objects(
    lines: Iterable[Line], path: Path
) -> Iterator[tuple[Line, dict[str, Any] | UserError]]:
    """Yield the lines that are not blank with their objects, or with the error of a line that is no
    object."""
    for line in lines:
        if not line.text.strip():
            continue
        item: dict[str, Any] | UserError
        try:
            item = _fields(json.loads(line.text), path, line)
        except UserError as error:
            item = error
        except (ValueError, RecursionError) as error:
            item = _wrong_json(path, line.number, error)
        yield line, item


def _array_objects(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Yield the objects of an array, or of the only list of objects inside an object, with the
    lines in which they begin. UserError for anything else."""
    text = _json_text(path)
    place = _place_of_records(text) if text.lstrip().startswith("{") else None
    end = place or 0
    number, expected = 1 + text.count("\n", 0, end), "["
    while True:
        number, end = _next_place(text, number, end)
        mark = text[end : end + 1]
        if not mark or mark not in expected:
            raise _wrong_json(path, number, f"expected {' or '.join(expected)}, got {mark!r}")
        number, end = _next_place(text, number, end + 1)
        if mark == "]":
            break
        try:
            value, after = DECODER.raw_decode(text, end)
        except (ValueError, RecursionError) as error:
            raise _wrong_json(path, number, error) from error
        line = Line(number, text[end : min(after, end + 60)], True)
        yield line, _fields(value, path, line)
        number, end, expected = number + text.count("\n", end, after), after, ",]"
    if place is None and text[end:].strip():
        raise _wrong_json(path, number, "text after the array")


def _json_text(path: Path) -> str:
    """Return the text of a JSON file; a small one is not opened again. UserError if it is not
    UTF-8."""
    blocks = blocks_of(path)
    content = blocks.beginning if blocks.is_whole else read_bytes(path, MAX_JSON)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8, the encoding of JSON: save it as UTF-8") from error


def _next_place(text: str, number: int, start: int) -> tuple[int, int]:
    """Return the number of the line and the position of the next character that is no space."""
    match = SPACES.match(text, start)
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
    parquet, number = _parquet(path), 0
    with _damage(path), parquet.ParquetFile(path) as file:
        names = _without_structs(file.schema_arrow.empty_table()).column_names
        yield Row(tuple(map(cell_text, names)), 0)
        for batch in file.iter_batches(MAX_BATCH):
            for cells in _rows_of_batch(batch):
                number += 1
                yield Row(cells, number)


def _parquet(path: Path) -> Any:
    """Return the library for Parquet files. UserError if it is not installed."""
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_package(path, "pyarrow") from error
    return parquet


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Raise a UserError for an exception of the library, which raises many kinds."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise damaged_file(path, error) from error


def parquet_rows_at(
    path: Path, choose: Callable[[int], Sequence[int]]
) -> tuple[tuple[str, ...], int, list[tuple[str, ...]]]:
    """Return the names of the columns of a Parquet file, its number of rows, and the rows that
    `choose` returns for this number, in ascending order from 0."""
    parquet, rows = _parquet(path), list[tuple[str, ...]]()
    with _damage(path), parquet.ParquetFile(path) as file:
        names = _without_structs(file.schema_arrow.empty_table()).column_names
        num_rows = file.metadata.num_rows
        places, begin = deque(choose(num_rows)), 0
        for group in range(file.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            if places and places[0] < end:
                for batch in file.iter_batches(MAX_TAKEN, row_groups=[group]):
                    rows.extend(_taken(batch, places, begin))
                    begin += batch.num_rows
            begin = end
    return tuple(map(cell_text, names)), num_rows, rows


def _taken(batch: Any, places: deque[int], begin: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows at these places of a batch that begins at row `begin`, and remove the
    places."""
    chosen = list[int]()
    while places and places[0] < begin + batch.num_rows:
        chosen.append(places.popleft() - begin)
    if chosen:
        yield from _rows_of_batch(batch.take(chosen))


def _rows_of_batch(batch: Any) -> Iterator[tuple[str, ...]]:
    from pyarrow import Table

    columns = [
        column.to_pylist() for column in _without_structs(Table.from_batches([batch])).columns
    ]
    return (tuple(map(cell_text, cells)) for cells in zip(*columns, strict=True))


def _without_structs(table: Any) -> Any:
    """Return a table with a column for each field of a nested column."""
    for _ in range(MAX_DEPTH):
        names = table.column_names
        table = table.flatten()
        if table.column_names == names:
            break
    return table
