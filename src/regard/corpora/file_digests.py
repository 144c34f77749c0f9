"""Digests of many files, read again only if they may have changed.

A digest is remembered with the file's size, times, inode and device. Programs can set the time of a
file's last change back (cp -p, rsync -t, tar), but not ctime.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.corpora.cache import DataCache
from regard.errors import UserError
from regard.storage.record import digest_of_file

RECENT_SECONDS = 2
"""A file that changed so recently may change again within the resolution of its ctime."""


def digests_of(names: Sequence[str], folder: Path) -> list[str | None]:
    """Return the SHA-256 of each file, or None if it cannot be read. Digests are remembered in the
    cache in this folder."""
    cache = DataCache(folder, "file digests")
    known: dict[str, Any] = cache.recall("digests", list(names)) or {}
    remembered, digests = {}, []
    for name in names:
        state = _state(name)
        digest = None
        if state is not None:
            entry = known.get(name)
            digest = entry[1] if entry and entry[0] == state else _digest(name)
            if digest is not None and time.time() - state[2] / 1e9 > RECENT_SECONDS:
                remembered[name] = [state, digest]
        digests.append(digest)
    if remembered != known:
        cache.remember("digests", list(names), remembered)
    return digests


def _state(name: str) -> list[int] | None:
    """Return the facts by which a change of a file shows. None unless it is a regular file: reading
    a pipe or a device may never end."""
    try:
        status = Path(name).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _digest(name: str) -> str | None:
    try:
        return digest_of_file(Path(name))
    except UserError:
        return None
