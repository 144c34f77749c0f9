"""Rows of workbooks: .xlsx, .xlsm, .xlsb, .xls and .ods."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cached_property, lru_cache
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
    workbook = _open_workbook(path)
    if not workbook.names or (sheet is not None and sheet not in workbook.names):
        wanted = "sheet" if sheet is None else f"sheet {sheet!r} (--data.sheet)"
        names = ", ".join(workbook.names)[:200]
        raise UserError(f"{path} has no {wanted}: its sheets are {names}")
    for number, cells in enumerate(workbook.cells(sheet or workbook.first_table), start=1):
        if any(cell != "" for cell in cells):
            yield Row(tuple(map(cell_text, cells)), number)


def default_sheet(path: Path) -> str:
    """Return the name of the first visible sheet of a workbook that has a table; that of the first
    sheet if none has."""
    return _open_workbook(path).first_table


def unread_sheets(path: Path, sheet: str | None) -> tuple[str, ...]:
    """Return the names of the visible sheets of a workbook that are not read."""
    workbook = _open_workbook(path)
    chosen = sheet or workbook.first_table
    return tuple(name for name in workbook.visible if name != chosen)


class _Workbook:
    """Workbook that is parsed once, and each of its sheets at most once."""

    def __init__(self, path: Path) -> None:
        """Parse the workbook. UserError as in `workbook_rows`."""
        try:
            from python_calamine import CalamineWorkbook
        except ImportError as error:
            raise missing_package(path, "python-calamine") from error
        content = read_bytes(path)
        check_size(content, path)
        self._path = path
        self._cells = dict[str, list[list[Any]]]()
        try:
            self._workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
            sheets = [
                each for each in self._workbook.sheets_metadata if "WorkSheet" in str(each.typ)
            ]
        except BaseException as error:
            raise _library_error(path, error) from error
        self.visible = [each.name for each in sheets if _is_visible(each)]
        hidden = [each.name for each in sheets if not _is_visible(each)]
        self.names = [*self.visible, *hidden]
        """Sheets with cells, hidden sheets last."""

    @cached_property
    def first_table(self) -> str:
        """First visible sheet that has a table, or the first sheet. A single sheet is not read."""
        if len(self.visible) > 1:
            tables = (name for name in self.visible if _has_table(self.cells(name)))
            return next(tables, self.visible[0])
        return self.names[0]

    def cells(self, name: str) -> list[list[Any]]:
        """Return the cells of a sheet by rows. UserError if the library cannot read them."""
        if name not in self._cells:
            try:
                sheet = self._workbook.get_sheet_by_name(name)
                self._cells[name] = sheet.to_python(skip_empty_area=False)
            except BaseException as error:
                raise _library_error(self._path, error) from error
        return self._cells[name]


def _open_workbook(path: Path) -> _Workbook:
    """Return a workbook, which stays in memory until another one is read."""
    if not path.is_file():
        return _Workbook(path)
    status = path.stat()
    return _open_once(path, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=1)
def _open_once(path: Path, stamp: tuple[int, int]) -> _Workbook:
    del stamp  # part of the key: a changed file is read again
    return _Workbook(path)


def _has_table(rows: list[list[Any]]) -> bool:
    """Return whether rows have a table: two rows with two cells, or more rows than a cover page."""
    numbers = [sum(cell != "" for cell in row) for row in rows]
    num_wide = sum(number >= MIN_CELLS for number in numbers)
    return num_wide >= MIN_ROWS or sum(map(bool, numbers)) > MAX_COVER


def _is_visible(sheet: Any) -> bool:
    return "Visible" in str(sheet.visible).rpartition(".")[2]


def _library_error(path: Path, error: BaseException) -> BaseException:
    """Return the error for an exception of the library, which raises many kinds; a panic of its
    Rust code is no Exception. Signals stay as they are."""
    is_panic = type(error).__name__ == "PanicException"
    return damaged_file(path, error) if is_panic or isinstance(error, Exception) else error
