"""What was made of large data, kept for the next run.

Each thing is one file, written whole or not at all, whose name follows from all that it depends on.
Nothing is lost but time where files, or the whole folder, are removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.data.text import encoded
from regard.data.text.encoded import DamagedError, EncodedPairs, PairSource
from regard.errors import UserError
from regard.files import UnwritableError, make_folder, whole
from regard.version import VERSION

log = logging.getLogger(__name__)

FORMAT = 1
"""To be raised where what is made of the same data changes."""
DAYS_KEPT = 30
"""Files that no run has used for so long are removed when one is written."""
DAYS_UNFINISHED = 1
SECONDS_A_DAY = 86_400
NAME = re.compile(r"[0-9a-f]{32}\.")


def cache_folder() -> Path:
    """REGARD_CACHE, else regard in XDG_CACHE_HOME, else ~/.cache/regard. UserError where there is
    none of them."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own)
    usual = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(usual) if usual else Path.home() / ".cache") / "regard"
    except RuntimeError as error:
        raise UserError(
            "there is no home folder to keep encoded pairs in: set REGARD_CACHE to a folder"
        ) from error


@dataclass(frozen=True)
class CachedPairs:
    """Encoded pairs, and the text about them."""

    pairs: EncodedPairs
    about: str
    made: Path | None = None
    """The file, where it was written now."""


@dataclass(frozen=True)
class DataCache:
    """The place for what is made of some data, which are known by their digest."""

    folder: Path
    data: str

    def page(self, name: str, facts: object, make: Callable[[], Any]) -> Any:
        """What was kept under this name for the same facts, or else what is made now: anything that
        JSON holds."""
        content = self.recall(name, facts)
        if content is None:
            content = make()
            self.remember(name, facts, content)
        return content

    def recall(self, name: str, facts: object) -> Any | None:
        """Return the content that was remembered under this name for the same facts, or None."""
        path = self._path(f"{name}.json", facts)
        with suppress(OSError, ValueError, LookupError, TypeError):  # not there, or damaged
            page = json.loads(path.read_text(encoding="utf8"))
            if page["sha256"] == _digest(page["content"]):
                _use(path)
                return page["content"]
        return None

    def remember(self, name: str, facts: object, content: Any) -> None:
        """Write content for `recall`, if the cache can be written."""
        text = _json({"sha256": _digest(content), "content": content})
        path = self._path(f"{name}.json", facts)
        self._keep(path, lambda unfinished: unfinished.write_text(text, encoding="utf8"))

    def pairs(self, facts: object, source: PairSource) -> CachedPairs:
        """The pairs that were kept for the same facts, or else those that are encoded now. Where
        nothing can be kept they are held in memory."""
        path = self._path("pairs.safetensors", facts)
        with suppress(OSError, DamagedError):
            found = CachedPairs(*encoded.read(path))
            _use(path)
            return found
        error = self._keep(path, lambda unfinished: encoded.write(unfinished, source))
        if error is None:
            return CachedPairs(*encoded.read(path), made=path)
        log.warning(
            "%s: the encoded pairs are held in memory and made anew by the next run. REGARD_CACHE "
            "can name another folder",
            error,
        )
        return CachedPairs(EncodedPairs.joined(source.parts()), source.about())

    def place(self, name: str) -> Path:
        """Where files may be kept whose names begin so, in a folder that is there. UnwritableError
        where it cannot be made."""
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
        """Write a file; what stood in the way, if it did."""
        try:
            make_folder(self.folder)
            with whole(path) as unfinished:
                write(unfinished)
        except UnwritableError as error:
            return error
        self._tidy()
        return None

    def _tidy(self) -> None:
        """Remove what was not used for long, and what a killed process left unfinished."""
        for path in self.folder.iterdir():
            if NAME.match(path.name):
                days = DAYS_UNFINISHED if path.suffix == ".unfinished" else DAYS_KEPT
                with suppress(OSError):  # another process was faster
                    if path.stat().st_mtime < time.time() - days * SECONDS_A_DAY:
                        path.unlink()


def _use(path: Path) -> None:
    """The time of a file's last change is when it was last used."""
    with suppress(OSError):
        os.utime(path)


def _json(content: object) -> str:
    return json.dumps(content)  # all ASCII, as a path may hold what UTF-8 has not


def _digest(content: object) -> str:
    return hashlib.sha256(_json(content).encode()).hexdigest()
