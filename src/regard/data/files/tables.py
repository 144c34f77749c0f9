"""Rows of .csv and .tsv files, with the numbers of their first lines."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.files.lines import Line
from regard.errors import UserError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Separators of columns by the suffix of the file name."""


def suffix_of(path: Path) -> str:
    """Return the suffix of a file name in lower case, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def find_column(head: Sequence[str], names: Iterable[str]) -> int | None:
    """Return the column of the first of these names that is in the header, ignoring case, or
    None."""
    cells = [cell.strip().lower() for cell in head]
    return next((cells.index(name.lower()) for name in names if name.lower() in cells), None)


class TableRows:
    """Rows of a table; `line` is the number of the first line of the last row. A quoted field of a
    .csv may span several lines; in a .tsv a quote is an ordinary character. UserError if a quote is
    not closed."""

    def __init__(self, lines: Iterable[Line], path: Path, separator: str) -> None:
        quoting: Any = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
        self._path = path
        self._reader = csv.reader(
            (f"{line.text}\n" for line in lines),
            delimiter=separator,
            quoting=quoting,
            skipinitialspace=True,
            strict=True,
        )
        self.line = 1

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            self.line = self._reader.line_num + 1
            try:
                yield next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise UserError(f"cannot read {self._path} at line {self.line}: {error}") from error
