"""An array that is made row by row, in a file where it is to last: what was broken off goes on.

    NAME.npy     all rows; those that are not made yet are zeros
    NAME.json    how many are made, and which of them could not be, with the reason

Rows of a file are read where they are needed: there may be more than memory holds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from regard.files import locked, whole

NOTED_AFTER = 256
"""So many new rows are noted together; at most these are made again."""


class Rows:
    """Those that are made, and room for the rest."""

    def __init__(
        self,
        count: int,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        path: Path | None = None,
    ) -> None:
        """Go on with the files of this name, or begin them; without a name all is in memory.
        OSError where they cannot be written."""
        self._path = path
        self._noted = self.done = 0
        """How many rows are made, the broken ones included."""
        self.broken: dict[int, str] = {}
        """The rows that could not be made, with their reasons."""
        wanted = (count, *shape)
        if path is None:
            self.values = np.zeros(wanted, dtype)
            return
        with locked(path.parent):
            found = self._found(path)
            if found is not None and (found.shape, found.dtype) == (wanted, dtype):
                self.values = found
                return
            self._noted, self.done, self.broken = 0, 0, {}
            self.values = np.lib.format.open_memmap(
                _array(path), mode="w+", dtype=dtype, shape=wanted
            )
            self._note()

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

    def _found(self, path: Path) -> np.ndarray | None:
        """What lies there; None where that is nothing, or damaged."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            page = json.loads(_page(path).read_text(encoding="utf8"))
            broken = {int(row): str(why) for row, why in page["broken"].items()}
            values = np.lib.format.open_memmap(_array(path), mode="r+")
            self.broken, self.done = broken, int(page["done"])
            self._noted = self.done
            return values
        return None

    def _note(self) -> None:
        self._noted = self.done
        if self._path is None:
            return
        if isinstance(self.values, np.memmap):
            self.values.flush()
        with whole(_page(self._path)) as unfinished:
            unfinished.write_text(json.dumps({"done": self.done, "broken": self.broken}))


def _array(path: Path) -> Path:
    return path.with_name(f"{path.name}.npy")


def _page(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
