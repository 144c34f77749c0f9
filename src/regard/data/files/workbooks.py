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
from regard.files import read_bytes


def workbook_rows(path: Path, sheet: str | None) -> Iterator[Row]:
    """Yield the rows of a sheet, by default of the first visible one. UserError if the workbook
    cannot be read or is too large, or if the library is not installed."""
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
            yield Row(tuple(map(cell_text, cells)), number)


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
