"""Array that is computed row by row, in memory or in a file that an interrupted computation
continues.

    NAME.npy     all rows; rows that are not computed yet are zeros
    NAME.json    number of computed rows, and the rows that failed with their reasons

Rows are read from the file on access, so the array may be larger than memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from regard.storage.files import UnwritableError, locked, whole

NOTED_AFTER = 256
"""Number of new rows between writes of NAME.json; an interruption loses at most these rows."""


class ArrayFile:
    """Array of `count` rows, of which the first `done` are computed."""

    def __init__(
        self, count: int, shape: Sequence[int], dtype: np.dtype[Any], path: Path | None = None
    ) -> None:
        """Continue the files of this name, or create them; without a name the array is in memory.
        OSError or UnwritableError if they cannot be written."""
        self._path = path
        self.done = 0
        """Number of computed rows, with failed rows."""
        self.broken: dict[int, str] = {}
        """Failed rows by number, with their reasons."""
        full_shape = (count, *shape)
        if path is None:
            self.values = np.zeros(full_shape, dtype)
        else:
            with locked(path.parent):
                saved = _saved(path, full_shape, dtype)
                if saved is None:
                    self.values = _new_array(_array(path), full_shape, dtype)
                    self._note()
                else:
                    self.values, self.done, self.broken = saved
        self._noted = self.done

    def __len__(self) -> int:
        """Return the number of rows, computed or not."""
        return len(self.values)

    def put(self, row: np.ndarray | str) -> None:
        """Set the next row, or the reason of its failure."""
        if isinstance(row, str):
            self.broken[self.done] = row
        else:
            self.values[self.done] = row
        self.done += 1
        if self.done == len(self) or self.done - self._noted >= NOTED_AFTER:
            self._note()

    def repair(self, place: int, row: np.ndarray) -> None:
        """Set a row that failed before."""
        self.values[place] = row
        del self.broken[place]
        self._note()

    def _note(self) -> None:
        self._noted = self.done
        if self._path is None:
            return
        if isinstance(self.values, np.memmap):
            self.values.flush()
        with whole(_state_file(self._path)) as unfinished:
            unfinished.write_text(json.dumps({"done": self.done, "broken": self.broken}))


def _saved(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[np.ndarray, int, dict[int, str]] | None:
    """Return the saved array, its number of computed rows and its failed rows; None if the files
    are missing, damaged, or of another array."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        state = json.loads(_state_file(path).read_text(encoding="utf8"))
        broken = {int(row): str(reason) for row, reason in state["broken"].items()}
        done = int(state["done"])
        values = np.lib.format.open_memmap(_array(path), mode="r+")
        if (values.shape, values.dtype) == (shape, dtype):
            return values, done, broken
    return None


def _new_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Create the file at its full size, because a write to a mapped file on a full disk would kill
    the process."""
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


def _state_file(path: Path) -> Path:
    """Return the file with the number of computed rows and the failed rows of an array file."""
    return path.with_name(f"{path.name}.json")
