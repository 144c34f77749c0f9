"""Files of pairs that are too large to hold: they are read from the beginning each time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.examples import Pair
from regard.data.files.lines import LineProblem
from regard.data.text.parallel import each_line
from regard.errors import UserError


@dataclass(frozen=True)
class PairFiles:
    """One file of pairs, or two. They have to stay as they were when this was made, since what one
    reading finds is relied on in the next."""

    path: Path
    target_path: Path | None
    stamps: tuple[tuple[int, int], ...]
    """Size and time of the last change of each."""

    @classmethod
    def of(cls, path: Path, target_path: Path | None = None) -> PairFiles:
        """UserError where there are no such files."""
        return cls(path, target_path, tuple(map(_stamp, _both(path, target_path))))

    @property
    def paths(self) -> tuple[Path, ...]:
        return _both(self.path, self.target_path)

    def digest(self) -> str:
        """The same for the same bytes in these files, and for no others."""
        told = []
        for path in self.paths:
            try:
                with path.open("rb") as file:
                    told.append(hashlib.file_digest(file, "sha256").hexdigest())
            except OSError as error:
                raise _unreadable(path, error) from error
        self._check()
        return "-".join(told)

    def each_line(self) -> Iterator[Pair | LineProblem]:
        """A pair or a problem for each line; UserError where a file has changed meanwhile."""
        self._check()
        yield from each_line(self.path, self.target_path)
        self._check()

    def _check(self) -> None:
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            if _stamp(path) != stamp:
                raise UserError(f"{path} was changed while it was read: start again")


def _both(path: Path, target_path: Path | None) -> tuple[Path, ...]:
    return (path,) if target_path is None else (path, target_path)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_size, found.st_mtime_ns


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}")
