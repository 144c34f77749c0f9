"""Rows of workbooks: .xlsx, .xlsm, .xlsb, .xls and .ods."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.data.files.cells import cell_text, damaged_file, missing_package
from regard.data.files.tables import Row
from regard.data.files.workbook_size import check_size
from regard.errors import UserError
from regard.storage.files import read_bytes

MIN_ROWS, MIN_CELLS = 2, 2
"""Numbers of rows, and of their cells with a value, that make a table."""
MAX_COVER = 20
"""Largest number of rows of a cover page, which has no table."""


def workbook_rows(path: Path, sheet: str | None) -> Iterator[Row]:
    """Yield the rows of a sheet, by default of the one that `default_sheet` returns. UserError if
    the workbook cannot be read or is too large, or if the library is not installed."""
    workbook, names = _open_workbook(path)
    if not names or (sheet is not None and sheet not in names):
        wanted = "sheet" if sheet is None else f"sheet {sheet!r} (--data.sheet)"
        raise UserError(f"{path} has no {wanted}: its sheets are {', '.join(names)[:200]}")
    rows = _cells(workbook, sheet or default_sheet(path), path)
    for number, cells in enumerate(rows, start=1):
        if any(cell != "" for cell in cells):
            yield Row(tuple(map(cell_text, cells)), number)


def default_sheet(path: Path) -> str:
    """Return the name of the first visible sheet of a workbook that has a table; that of the first
    sheet if none has."""
    if not path.is_file():
        return _first_table(path)
    status = path.stat()
    return _first_table_once(path, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)
def _first_table_once(path: Path, stamp: tuple[int, int]) -> str:
    del stamp  # part of the key: a changed file is read again
    return _first_table(path)


def _first_table(path: Path) -> str:
    """Return the name of the first visible sheet that has a table; that of the first sheet if none
    has. A single sheet is not read."""
    workbook, names = _open_workbook(path)
    visible = _visible(workbook, names)
    if len(visible) > 1:
        tables = (name for name in visible if _has_table(_cells(workbook, name, path)))
        return next(tables, visible[0])
    return names[0]


def unread_sheets(path: Path, sheet: str | None) -> tuple[str, ...]:
    """Return the names of the visible sheets of a workbook that are not read."""
    chosen = sheet or default_sheet(path)
    return tuple(name for name in _visible(*_open_workbook(path)) if name != chosen)


def _has_table(rows: list[list[Any]]) -> bool:
    """Return whether rows have a table: two rows with two cells, or more rows than a cover page."""
    numbers = [sum(cell != "" for cell in row) for row in rows]
    num_wide = sum(number >= MIN_CELLS for number in numbers)
    return num_wide >= MIN_ROWS or sum(map(bool, numbers)) > MAX_COVER


def _cells(workbook: Any, name: str, path: Path) -> list[list[Any]]:
    """Return the cells of a sheet by rows. UserError if the library cannot read them."""
    try:
        rows: list[list[Any]] = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except BaseException as error:
        raise _library_error(path, error) from error
    return rows


def _visible(workbook: Any, names: list[str]) -> list[str]:
    """Return those of the sheets that are visible."""
    visible = [entry.name for entry in workbook.sheets_metadata if _is_visible(entry)]
    return [name for name in names if name in visible]


def _open_workbook(path: Path) -> tuple[Any, list[str]]:
    """Return a workbook with the names of its sheets that have cells, hidden sheets last."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise missing_package(path, "python-calamine") from error
    content = read_bytes(path)
    if path.is_file():
        status = path.stat()
        _check_once(path, (status.st_size, status.st_mtime_ns))
    else:
        check_size(content, path)
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
    check_size(read_bytes(path), path)


def _library_error(path: Path, error: BaseException) -> BaseException:
    """Return the error for an exception of the library, which raises many kinds; a panic of its
    Rust code is no Exception. Signals stay as they are."""
    is_panic = type(error).__name__ == "PanicException"
    return damaged_file(path, error) if is_panic or isinstance(error, Exception) else error
