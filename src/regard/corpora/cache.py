"""Cache of results that are expensive to compute from large data.

Each entry is one file, or a file for each part of a large corpus. Files are written completely or
not at all, and their names are digests of all that they depend on. Removing files, or the whole
folder, only costs time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.data.text.pairs.parts import DamagedError, PairSource, Part
from regard.errors import UserError
from regard.runtime.signals import TerminatedError
from regard.storage.files import UnwritableError, make_folder, whole
from regard.version import VERSION

log = logging.getLogger(__name__)

FORMAT = 3
"""Version of cached results. It is raised if results of equal data change."""
DAYS_KEPT = 30
"""Days after which unused files are removed, when another file is written."""
DAYS_UNFINISHED = 1
SECONDS_A_DAY = 86_400
NAME = re.compile(r"[0-9a-f]{32}\.")


def cache_folder() -> Path:
    """Return the cache folder: REGARD_CACHE, else regard in XDG_CACHE_HOME, else ~/.cache/regard.
    UserError if none of them exists."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own)
    usual = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(usual) if usual else Path.home() / ".cache") / "regard"
    except RuntimeError as error:
        raise UserError(
            "no home folder for the cache of encoded pairs: set REGARD_CACHE to a folder"
        ) from error


@dataclass(frozen=True)
class CachedParts:
    """Parts of encoded pairs."""

    parts: tuple[Part, ...]
    made: tuple[Path, ...] = ()
    """Files that were written by this call."""


@dataclass(frozen=True)
class DataCache:
    """Cached results of data, which are identified by their digest."""

    folder: Path
    data: str

    def recall_or_compute(self, name: str, facts: object, compute: Callable[[], Any]) -> Any:
        """Return the cached content of this name and these facts, or compute and cache it. The
        content is any JSON value; `facts` are the values, apart from the data, that it depends
        on."""
        content = self.recall(name, facts)
        if content is None:
            with self._noting(
                "this pass over the data is not complete, so the next run repeats it"
            ):
                content = compute()
            self.remember(name, facts, content)
        return content

    def recall(self, name: str, facts: object) -> Any | None:
        """Return the cached content of this name and these facts, or None."""
        path = self._path(f"{name}.json", facts)
        with suppress(OSError, ValueError, LookupError, TypeError):  # missing or damaged
            entry = json.loads(path.read_text(encoding="utf8"))
            if entry["sha256"] == _digest(entry["content"]):
                _use(path)
                return entry["content"]
        return None

    def remember(self, name: str, facts: object, content: Any) -> None:
        """Cache content for `recall`, if the cache can be written."""
        text = _json({"sha256": _digest(content), "content": content})
        path = self._path(f"{name}.json", facts)
        self._keep(path, lambda unfinished: unfinished.write_text(text, encoding="utf8"))

    def parts(self, facts: object, source: PairSource) -> CachedParts:
        """Return the cached parts of these facts. Parts that are missing or damaged are encoded and
        cached, so an interrupted call continues at the next part. If the cache cannot be written,
        they are held in memory."""
        path, first = self._path("pairs", facts), 0
        parts, made = list[Part](), list[Path]()
        built: Iterator[Part] | None = None  # the parts from this one on
        is_writable = True
        while not parts or not parts[-1].facts.is_last:
            file = path.with_name(f"{path.name}-{len(parts):05}.safetensors")
            part = _stored(file)
            if part is None or part.facts.first != first:
                built = built or source.parts(first)
                with self._noting(f"{first:,} encoded pairs are kept"):
                    part = next(built)
                if is_writable and (is_writable := self._store(file, part)):
                    made.append(file)
                    part = _stored(file) or part  # another process may have removed the file
            else:
                built = None
                _use(file)
            parts.append(part)
            first = part.facts.first + part.facts.num_read
        return CachedParts(tuple(parts), tuple(made))

    @contextmanager
    def _noting(self, progress: str) -> Iterator[None]:
        """Add a note on what the cache keeps to an exception that a signal raises."""
        try:
            yield
        except (KeyboardInterrupt, TerminatedError) as error:
            error.add_note(
                f"{progress}; {self.folder} has the results of complete passes for the next run"
            )
            raise

    def _store(self, path: Path, part: Part) -> bool:
        """Write a part, and return whether the cache can be written."""
        error = self._keep(path, part.write)
        if error is not None:
            log.warning(
                "%s: the encoded pairs are held in memory, and the next run encodes them again. "
                "Set REGARD_CACHE to another folder",
                error,
            )
        return error is None

    def place(self, name: str) -> Path:
        """Return a path in the cache to which callers add suffixes. UnwritableError if the folder
        cannot be created."""
        make_folder(self.folder)
        path = self._path(name, None)
        for file in self.folder.glob(f"{path.name}.*"):
            _use(file)
        self._tidy()
        return path

    def _path(self, name: str, facts: object) -> Path:
        versions = FORMAT, VERSION, version("tokenizers")
        return self.folder / f"{_digest([versions, self.data, facts])[:32]}.{name}"

    def _keep(self, path: Path, write: Callable[[Path], object]) -> UnwritableError | None:
        """Write a file. Return the error if it cannot be written."""
        try:
            make_folder(self.folder)
            with whole(path) as unfinished:
                write(unfinished)
        except UnwritableError as error:
            return error
        self._tidy()
        return None

    def _tidy(self) -> None:
        """Remove files that were unused for long, and unfinished files of killed processes."""
        paths = list[Path]()
        with suppress(OSError):  # a person removed the folder
            paths = list(self.folder.iterdir())
        for path in paths:
            if NAME.match(path.name):
                days = DAYS_UNFINISHED if path.suffix == ".unfinished" else DAYS_KEPT
                with suppress(OSError):  # another process removed it
                    if path.stat().st_mtime < time.time() - days * SECONDS_A_DAY:
                        path.unlink()


def _stored(path: Path) -> Part | None:
    """Return a part, or None if it is missing or damaged."""
    with suppress(OSError, DamagedError):
        return Part.read(path)
    return None


def _use(path: Path) -> None:
    """Set the modification time of a file, which is the time of its last use."""
    with suppress(OSError):
        os.utime(path)


def _json(content: object) -> str:
    return json.dumps(content)  # ASCII only, because a path may not be valid UTF-8


def _digest(content: object) -> str:
    return hashlib.sha256(_json(content).encode()).hexdigest()
