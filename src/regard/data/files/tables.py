"""Rows of .csv and .tsv files, with the lines they began in."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.files.lines import Line
from regard.errors import UserError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Of tables, by what their names end in."""


def suffix_of(path: Path) -> str:
    """What a name ends in, zipped or not, in lower case."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def find_column(head: Sequence[str], names: Iterable[str]) -> int | None:
    """Where the first of these names that a head has stands in it, in whatever case."""
    found = [cell.strip().lower() for cell in head]
    return next((found.index(name.lower()) for name in names if name.lower() in found), None)


class TableRows:
    """The rows of a table, and the line where the last of them began. A quoted field of a .csv may
    go over several lines; in a .tsv a quote is a letter. UserError where quotes do not close."""

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
