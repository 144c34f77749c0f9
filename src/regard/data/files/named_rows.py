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
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

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
UNZIP_ERRORS = (
    *(zipfile.BadZipFile, ValueError, NotImplementedError, zlib.error, EOFError, RuntimeError),
    *(expat.ExpatError, OSError),
)
"""Errors of a damaged workbook. A RuntimeError is that of an encrypted one."""
ODS_SHEETS = "content.xml"
SHEETS = rf"xl/worksheets/[^/]+\.xml|{re.escape(ODS_SHEETS)}"
"""Names of the parts of a workbook that have cells."""
MAX_DIGITS = 12
"""Number of letters, or of digits, of the place of a cell that are read."""
FAR = 10**18
"""Number above that of every row or column."""
MAX_CELLS = 50_000_000
"""Largest number of cells from the first to the last cell of a sheet."""


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
    except BaseException as error:
        raise _library_error(path, error) from error
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
    if path.is_file():
        status = path.stat()
        _check_once(path, (status.st_size, status.st_mtime_ns))
    else:
        _check_size(content, path)
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = [sheet for sheet in workbook.sheets_metadata if "WorkSheet" in str(sheet.typ)]
    except BaseException as error:
        raise _library_error(path, error) from error
    ordered = sorted(sheets, key=lambda sheet: not _is_visible(sheet))
    return workbook, [sheet.name for sheet in ordered]


def _is_visible(sheet: Any) -> bool:
    return "Visible" in str(sheet.visible).rpartition(".")[2]


@lru_cache(maxsize=8)
def _check_once(path: Path, stamp: tuple[int, int]) -> None:
    """Check a workbook unless this file was checked before."""
    del stamp  # part of the key: a changed file is checked again
    _check_size(read_bytes(path), path)


def _check_size(content: bytes, path: Path) -> None:
    """Raise a UserError for a workbook that is too large when unpacked, or that has a cell too far
    from the others: the library stores all cells between them."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            names = archive.namelist()
            sheets = [name for name in names if re.fullmatch(SHEETS, name)]
            checked = sheets if size <= MAX_WHOLE else []
            num_cells = max((_num_cells(archive, name) for name in checked), default=0)
    except UNZIP_ERRORS as error:
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
    """Return the number of cells from the first to the last cell of a sheet. ExpatError if the
    sheet is not XML: the library would read it all the same."""
    extent = _RepeatedExtent() if sheet == ODS_SHEETS else _Extent()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = extent.start, extent.end
    with archive.open(sheet) as file:
        while content := file.read(1 << 20):
            parser.Parse(content)
        parser.Parse(b"", True)
    return extent.num_cells


class _Extent:
    """Smallest rectangle with all cells of a sheet that have a value. Cells without a place follow
    the cell before them, and rows without a number the row before them."""

    def __init__(self) -> None:
        self.row = self.column = self.cell_row = 0
        self.first_row = self.first_column = FAR
        self.last_row = self.last_column = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Add an element of the sheet."""
        place = attributes.get("r", "")
        digits = "".join(filter(str.isdecimal, place))[:MAX_DIGITS]
        match name.rpartition(":")[2]:
            case "row":
                self.row = int(digits) if digits else self.row + 1
                self.column = 0
            case "c":
                letters = "".join(filter(str.isalpha, place))[:MAX_DIGITS].upper()
                is_place = letters.isascii() and letters
                self.column = _column(letters.encode()) if is_place else self.column + 1
                self.cell_row = int(digits) if digits else self.row
            case "v" | "is":
                self._add(self.cell_row)

    def end(self, name: str) -> None:
        """Nothing ends with an element."""

    def _add(self, row: int) -> None:
        self.first_row, self.last_row = min(self.first_row, row), max(self.last_row, row)
        self.first_column = min(self.first_column, self.column)
        self.last_column = max(self.last_column, self.column)

    @property
    def num_cells(self) -> int:
        """Number of cells of the rectangle."""
        num_rows = max(0, self.last_row - self.first_row + 1)
        return num_rows * max(0, self.last_column - self.first_column + 1)


class _RepeatedExtent:
    """Size of the largest sheet of an OpenDocument file, whose rows and cells may be repeated. Rows
    without a text count if a row with a text follows them."""

    def __init__(self) -> None:
        self.num_cells = 0
        self.rows = self.columns = self.blank_rows = 0
        self.row_size = self.column = self.last = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Add an element of the file."""
        sizes = {key.rpartition(":")[2]: value[:MAX_DIGITS] for key, value in attributes.items()}
        match name.rpartition(":")[2]:
            case "table":
                self.rows = self.columns = self.blank_rows = 0
            case "table-row":
                self.row_size = int(sizes.get("number-rows-repeated", "1"))
                self.column = self.last = 0
            case "table-cell" | "covered-table-cell":
                self.column += int(sizes.get("number-columns-repeated", "1"))
                if sizes.keys() & {"value", "value-type", "date-value", "boolean-value"}:
                    self.last = self.column

    def end(self, name: str) -> None:
        """End a row."""
        if name.rpartition(":")[2] != "table-row":
            return
        if not self.last:
            self.blank_rows += self.row_size
            return
        self.rows += self.blank_rows + self.row_size
        self.blank_rows, self.columns = 0, max(self.columns, self.last)
        self.num_cells = max(self.num_cells, self.rows * self.columns)


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


def _library_error(path: Path, error: BaseException) -> BaseException:
    """Return the error for an exception of the library, which raises many kinds; a panic of its
    Rust code is no Exception. Signals stay as they are."""
    is_panic = type(error).__name__ == "PanicException"
    return _damaged(path, error) if is_panic or isinstance(error, Exception) else error


def _damaged(path: Path, error: BaseException) -> UserError:
    problem = " ".join(str(error).split())[:120]
    return UserError(f"cannot read {path}: {problem or type(error).__name__}")
