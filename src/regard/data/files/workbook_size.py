"""Size of a workbook before it is read: its library stores every cell from the first to the last
one, so that one far cell would fill the memory."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from functools import reduce
from pathlib import Path
from xml.parsers import expat

from regard.data.files.cells import damaged_file
from regard.errors import UserError
from regard.storage.files import MAX_WHOLE

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


def check_size(content: bytes, path: Path) -> None:
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
        raise damaged_file(path, error) from error
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
        """Accept the end of an element, which changes nothing."""

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
