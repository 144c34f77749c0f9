"""Read files of users within bounds, write files completely or not at all, and lock folders."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from regard.errors import UserError

MODEL, LOG, RECORD = "model.safetensors", "log.jsonl", "run.json"
"""Names of the weights, the log and the record in a run folder."""
STATE, SPLITS = "state/training.safetensors", "state/splits.json"
"""Names of the training state and of the record of split updates in a run folder."""
PREVIOUS = "state/previous.safetensors"
"""Name of the training state before the last one."""
BLOCK = 1 << 20
"""Number of bytes that are read together."""
LEFT_OVER = re.compile(r"\.[0-9a-f]{32}\.unfinished$")
"""Suffix of files that are being written."""

MAX_WHOLE = 1 << 30
"""Largest number of bytes of a file that is read into memory at once, after unpacking."""
MAX_RATIO = 100
"""Largest ratio of unpacked to packed bytes. Text has a ratio of 3 to 30, a gzip bomb of 1,000."""
RATIO_FROM = 1 << 23
"""Number of unpacked bytes above which the ratio is checked, because a small file may repeat one
line."""
MAX_UNPACKED = 1 << 36
"""Largest number of unpacked bytes of a gzip file."""
MAX_NAME_LENGTH = 200
"""Largest number of characters of a file name in a message."""
GZIP = b"\x1f\x8b"


class UnwritableError(UserError):
    """File or folder that cannot be written or created."""


def shorten_name(name: str | Path) -> str:
    """Return a file name for a message, without the middle part of a long name."""
    text = str(name)
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH // 2]}…{text[-20:]}"


def exists(path: Path) -> bool:
    """Return whether the path exists. False for a name that is too long for any file."""
    try:
        return path.exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def check_name(name: str | Path) -> Path:
    """Return the name as a path. UserError if no file can have it: a NUL or a lone surrogate."""
    try:
        if b"\0" in os.fsencode(name):
            raise UserError(f"the file name {str(name)[:200]!a} has a NUL character: correct it")
    except UnicodeEncodeError as error:
        raise UserError(
            f"the file name {str(name)[:200]!a} has half of a surrogate pair: correct it"
        ) from error
    return Path(name)


def check_input(name: str | Path) -> Path:
    """Return the path of a file to read; UserError if it is missing or is no file.

    Directories, named pipes, sockets and devices are refused by their mode (stat): a named pipe
    waits for a writer, and /dev/zero never ends. Allowed are /dev/null and every stream that this
    process holds open already, under any name: /dev/stdin, /dev/fd/63 of a shell's <(command).
    """
    path = check_name(name)
    try:
        status = path.stat()
        kind = _kind(status)
        is_allowed = kind is None or _is_null(status) or _descriptor(status) is not None
    except OSError as error:
        raise unreadable(path, error) from error
    if kind == "directory":
        raise UserError(f"cannot read {shorten_name(path)}: is a directory")
    if not is_allowed:
        raise UserError(
            f"cannot read {shorten_name(path)}: it is a {kind}: expected a file; pipe data "
            "in as /dev/stdin"
        )
    return path


def resolved(path: str | Path) -> Path:
    """Return the absolute path without symbolic links. A link to itself is kept."""
    return Path(os.path.realpath(path))


def check_readable(name: str | Path) -> Path:
    """Return the path of a file to read. UserError as in `check_input`, or if it cannot be
    opened."""
    path = check_input(name)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise unreadable(path, error) from error


def check_writable(folder: Path) -> None:
    """Raise an UnwritableError if a folder cannot be created or written to. Nothing is created."""
    place = next(above for above in (folder, *folder.absolute().parents) if above.exists())
    if place.is_dir() and not os.access(place, os.W_OK | os.X_OK):
        raise UnwritableError(
            f"cannot write to {shorten_name(place)}: permission denied; name another folder with -o"
        )


def unreadable(path: str | Path, error: OSError) -> UserError:
    """Return the error for a file that the system cannot open or read."""
    return UserError(f"cannot read {shorten_name(path)}: {(error.strerror or str(error)).lower()}")


def open_bytes(name: str | Path) -> io.BufferedReader:
    """Open a user's file, unpacked if it is gzipped; UserError if it cannot be read.

    Unpacking stops with a UserError at more than `MAX_RATIO` bytes for each packed one, or at more
    than `MAX_UNPACKED` bytes; memory use is constant."""
    path = check_input(name)
    try:
        file = _open(path)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        if file.peek(2)[:2] != GZIP:
            return file
    except OSError as error:
        file.close()
        raise unreadable(path, error) from error
    return io.BufferedReader(_Unpacked(file, path), buffer_size=1 << 16)


def read_bytes(name: str | Path, max_bytes: int = MAX_WHOLE) -> bytes:
    """Return the content of a user's file, unpacked if it is gzipped. UserError if it cannot be
    read or has more than `max_bytes` bytes."""
    with open_bytes(name) as file:
        try:
            content = b"".join(_blocks(file, max_bytes + 1))
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"cannot read {name}: {error}") from error
    if len(content) > max_bytes:
        raise UserError(f"{name} has more than {max_bytes:,} bytes, the limit for this file")
    return content


def _blocks(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file, without a buffer of that size."""
    while size > 0 and (block := file.read(min(size, BLOCK))):
        yield block
        size -= len(block)


def read_text(name: str | Path, max_bytes: int = MAX_WHOLE) -> str:
    """Return the content of a user's file of UTF-8 text, without a byte-order mark at its
    beginning. UserError as in `read_bytes`, or if the file is not UTF-8."""
    try:
        return read_bytes(name, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a path to write to. The file replaces `path` when the block ends without an error.

    The new file is on the disk before it replaces the old one, so a crash or a power failure leaves
    one of them, complete. If the block fails, the old file is unchanged. If several processes write
    at once, the file of the last one remains. The new file has the permissions of the old one. A
    path that is not a file (/dev/stdout, a pipe) is written to directly. UnwritableError if the
    path cannot be written to."""
    try:
        if path.exists() and not path.is_file():
            yield path
        else:
            with _renamed_when_whole(resolved(path)) as unfinished:
                yield unfinished
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableError(
            f"cannot write {shorten_name(path)}: {error.strerror or error}"
        ) from error


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file with a header, completely or not at all. A missing cell is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with whole(path) as unfinished:
        unfinished.write_text(text.getvalue(), encoding="utf-8")


def make_folder(path: Path) -> None:
    """Create a folder and its parents. UnwritableError if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UnwritableError(
            f"cannot make the folder {path}: there is a file of that name"
        ) from error
    except OSError as error:
        raise UnwritableError(
            f"cannot make the folder {shorten_name(path)}: {error.strerror or error}"
        ) from error


def keep_as(path: Path, name: Path) -> None:
    """Give a file a second name, which replaces another file of that name: by a link, or by a copy
    on file systems without links. UnwritableError if that fails."""
    try:
        with whole(name) as unfinished:
            unfinished.unlink()
            try:
                os.link(path, unfinished)
            except OSError:
                shutil.copyfile(path, unfinished)
    except FileNotFoundError as error:
        raise UnwritableError(f"cannot write {name}: {path} is gone") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder until the block ends; other threads and processes wait for it. On
    systems without POSIX locks nothing is locked."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with _opened(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def locked_or_refused(folder: Path, refusal: str) -> Iterator[None]:
    """Hold the folder's lock until the block ends; UserError with this text if another process
    holds it. The lock ends with its process, however that ends. Without POSIX, or on a file system
    without locks, nothing is locked."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with _opened(folder) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(refusal) from error
        except OSError:  # this file system has no locks
            pass
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
        flush_names(path.parent)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished files of `whole` that a killed process left in this folder. No process may
    be writing there. Files with such a name that a person chose are kept."""
    for path in folder.glob("*.unfinished"):
        if LEFT_OVER.search(path.name):
            path.unlink(missing_ok=True)


def flush_names(folder: Path) -> None:
    """Flush a folder to the disk, and with it the new name of a file."""
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


class _Unpacked(io.RawIOBase):
    """Unpacked content of a gzip file, within bounds."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._packed = _Counted(file)
        self._gzip = gzip.GzipFile(fileobj=self._packed, mode="rb")
        self._path = path
        self._num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._gzip.read1(len(buffer))
        buffer[: len(content)] = content
        self._num_bytes += len(content)
        ratio = self._num_bytes / max(self._packed.num_bytes, 1)
        if self._num_bytes > MAX_UNPACKED or (self._num_bytes > RATIO_FROM and ratio > MAX_RATIO):
            raise UserError(
                f"{self._path} unpacks to {ratio:.0f} times its size (more than "
                f"{self._num_bytes >> 20} MiB): expected at most {MAX_RATIO} times. If it is not a "
                "gzip bomb, unpack it first (gunzip)"
            )
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._gzip.close()
            self._packed.close()
        super().close()


class _Counted(io.RawIOBase):
    """File that counts the bytes read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.num_bytes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.num_bytes += len(content)
        return content

    def close(self) -> None:
        self._file.close()
        super().close()


def _kind(status: os.stat_result) -> str | None:
    """Return a noun for a path that is not a regular file."""
    tests = {
        "directory": stat.S_ISDIR,
        "named pipe (FIFO)": stat.S_ISFIFO,
        "socket": stat.S_ISSOCK,
        "device": stat.S_ISCHR,
        "disk device": stat.S_ISBLK,
    }
    return next((noun for noun, is_kind in tests.items() if is_kind(status.st_mode)), None)


def _is_null(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev


def _open(path: Path) -> io.BufferedReader:
    """Open a file. The descriptor of an open pipe is copied, because opening the pipe by its name
    would wait for another writer."""
    status = path.stat()
    descriptor = _descriptor(status) if stat.S_ISFIFO(status.st_mode) else None
    return path.open("rb") if descriptor is None else os.fdopen(os.dup(descriptor), "rb")


def _descriptor(status: os.stat_result) -> int | None:
    """Return this process's open descriptor of a pipe or terminal, if there is one."""
    if stat.S_ISDIR(status.st_mode) or not Path("/dev/fd").is_dir():
        return None
    for name in Path("/dev/fd").iterdir():
        with suppress(OSError, ValueError):
            opened = os.fstat(int(name.name))
            if (opened.st_dev, opened.st_ino) == (status.st_dev, status.st_ino):
                return int(name.name)
    return None
