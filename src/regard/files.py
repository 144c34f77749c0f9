"""Files that are there whole or not at all, and folders that one changes at a time."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from regard.errors import UserError

MODEL, LOG = "model.safetensors", "log.jsonl"
"""What whoever trains calls the weights and the log in a folder."""
LEFT_OVER = re.compile(r"\.[0-9a-f]{32}\.unfinished$")
"""How names end of files that are being written."""


class UnwritableError(UserError):
    """A file or a folder cannot be written or made."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file that takes the place of `path` when the block has ended well.

    It is then on the disk, not only in memory: who is killed, or loses power, leaves the old file
    or the new one, and where the block fails the old one stays. Of several who write at once the
    last one's file stays, whole. Who may read the old file may read the new one. What is no file
    (/dev/stdout, a pipe) is written to as it is. UnwritableError where nothing can be written."""
    try:
        if path.exists() and not path.is_file():
            yield path
        else:
            with _renamed_when_whole(path.resolve()) as unfinished:
                yield unfinished
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableError(f"cannot write {path}: {error.strerror or error}") from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it; UnwritableError where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UnwritableError(
            f"cannot make the folder {path}: there is a file of that name"
        ) from error
    except OSError as error:
        raise UnwritableError(
            f"cannot make the folder {path}: {error.strerror or error}"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps out whoever else asks for this folder's lock, another process too, until the block has
    ended. Only POSIX has it."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with _opened(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _renamed_when_whole(path: Path) -> Iterator[Path]:
    unfinished = path.with_name(f"{path.name[:40]}.{uuid4().hex}.unfinished")
    unfinished.touch(exist_ok=False)
    try:
        mode = (path if path.exists() else unfinished).stat().st_mode
        yield unfinished
        with unfinished.open("r+b") as file:
            os.fsync(file.fileno())
        unfinished.chmod(stat.S_IMODE(mode))
        unfinished.replace(path)
        _keep_names(path.parent)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what `whole` began to write in this folder and a killed process left there. Nobody may
    be writing there now. Files that a person called so stay."""
    for path in folder.glob("*.unfinished"):
        if LEFT_OVER.search(path.name):
            path.unlink(missing_ok=True)


def _keep_names(folder: Path) -> None:
    """A file's new name is on the disk when its folder is."""
    if os.name == "posix":
        with _opened(folder) as descriptor:
            os.fsync(descriptor)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
