"""Files of pairs that are too large for memory. Every pass reads them from the beginning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.examples import Pair
from regard.data.files.lines import LineProblem
from regard.data.files.tables import TableSettings
from regard.data.text.parallel import PLAIN, each_line, pair_columns
from regard.errors import UserError


@dataclass(frozen=True)
class PairFiles:
    """File of pairs, or two files. The files must not change while they are used, because each pass
    relies on the passes before."""

    path: Path
    target_path: Path | None
    stamps: tuple[tuple[int, int], ...]
    """Size and modification time of each file."""
    settings: TableSettings | None = None
    """Format and columns; None: lines of UTF-8 with the first two columns."""

    @classmethod
    def of(
        cls, path: Path, target_path: Path | None = None, settings: TableSettings | None = None
    ) -> PairFiles:
        """Return the files with their sizes and times. UserError if a file cannot be read."""
        stamps = tuple(map(_stamp, _both(path, target_path)))
        if settings is not None and target_path is None and pair_columns(path, settings) == PLAIN:
            settings = None
        return cls(path, target_path, stamps, settings)

    @property
    def paths(self) -> tuple[Path, ...]:
        return _both(self.path, self.target_path)

    def digest(self) -> str:
        """Return a digest of the content of the files. UserError if a file cannot be read."""
        digests = []
        for path in self.paths:
            try:
                with path.open("rb") as file:
                    digests.append(hashlib.file_digest(file, "sha256").hexdigest())
            except OSError as error:
                raise _unreadable(path, error) from error
        self._check()
        if self.settings not in (None, TableSettings()):
            digests.append(hashlib.sha256(repr(self.settings).encode()).hexdigest())
        return "-".join(digests)

    def each_line(self) -> Iterator[Pair | LineProblem]:
        """Yield a pair or a problem for each line. UserError if a file changed since `of`."""
        self._check()
        yield from each_line(self.path, self.target_path, self.settings)
        self._check()

    def _check(self) -> None:
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            if _stamp(path) != stamp:
                raise UserError(f"{path} changed while it was read: start again")


def _both(path: Path, target_path: Path | None) -> tuple[Path, ...]:
    return (path,) if target_path is None else (path, target_path)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return status.st_size, status.st_mtime_ns


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}")
