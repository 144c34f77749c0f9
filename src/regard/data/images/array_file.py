"""An array that is made row by row, in a file where it is to last: what was broken off goes on.

    NAME.npy     all rows; those that are not made yet are zeros
    NAME.json    how many are made, and which of them could not be, with the reason

Rows of a file are read where they are needed: there may be more than memory holds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from regard.files import UnwritableError, locked, whole

NOTED_AFTER = 256
"""So many new rows are noted together; at most these are made again."""


class ArrayFile:
    """Those that are made, and room for the rest."""

    def __init__(
        self,
        count: int,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        path: Path | None = None,
    ) -> None:
        """Go on with the files of this name, or begin them; without a name all is in memory.
        OSError or UnwritableError where they cannot be written."""
        self._path = path
        self.done = 0
        """How many rows are made, the broken ones included."""
        self.broken: dict[int, str] = {}
        """The rows that could not be made, with their reasons."""
        wanted = (count, *shape)
        if path is None:
            self.values = np.zeros(wanted, dtype)
        else:
            with locked(path.parent):
                found = _found(path, wanted, dtype)
                if found is None:
                    self.values = _new_array(_array(path), wanted, dtype)
                    self._note()
                else:
                    self.values, self.done, self.broken = found
        self._noted = self.done

    def __len__(self) -> int:
        """How many there are to be."""
        return len(self.values)

    def put(self, row: np.ndarray | str) -> None:
        """The next row, or why there is none."""
        if isinstance(row, str):
            self.broken[self.done] = row
        else:
            self.values[self.done] = row
        self.done += 1
        if self.done == len(self) or self.done - self._noted >= NOTED_AFTER:
            self._note()

    def repair(self, place: int, row: np.ndarray) -> None:
        """Set a row that could not be made before."""
        self.values[place] = row
        del self.broken[place]
        self._note()

    def _note(self) -> None:
        self._noted = self.done
        if self._path is None:
            return
        if isinstance(self.values, np.memmap):
            self.values.flush()
        with whole(_page(self._path)) as unfinished:
            unfinished.write_text(json.dumps({"done": self.done, "broken": self.broken}))


def _found(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[np.ndarray, int, dict[int, str]] | None:
    """The rows that lie there, how many are made and which are broken; None where there are none,
    or others, or damaged ones."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        page = json.loads(_page(path).read_text(encoding="utf8"))
        broken = {int(row): str(why) for row, why in page["broken"].items()}
        done = int(page["done"])
        values = np.lib.format.open_memmap(_array(path), mode="r+")
        if (values.shape, values.dtype) == (shape, dtype):
            return values, done, broken
    return None


def _new_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Create the file at its full size. Writing to a mapped file that the disk has no room for
    would kill the process."""
    values = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise UnwritableError(f"cannot write {path}: {error.strerror or error}") from error
    return values


def _array(path: Path) -> Path:
    return path.with_name(f"{path.name}.npy")


def _page(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
