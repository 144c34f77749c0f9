"""Lines on the standard output and the standard error, and the options that they name."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path

from regard.characters import with_escapes
from regard.errors import UserError
from regard.storage.files import resolved

FILE_FIELD = re.compile(
    r"(?:--)?\bdata\.((?:no-)?header|(?:source|target)[-_]column|feature[-_]columns|encoding|delimiter|sheet)\b(?!\.\w)"
)
"""Field about the format and the columns of a file, in a message."""


def say(text: str) -> None:
    """Print a line, with escapes of invisible characters. If the reader of a pipe has closed it, as
    `| head` does, warn once and drop all further output; the work continues."""
    try:
        print(with_escapes(text), flush=True)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EBADF):
            raise
        drop_output()
        warn("the output is closed: continuing without output")


def warn(text: str) -> None:
    """Print a line on the standard error, with escapes of invisible characters."""
    print(with_escapes(text), file=sys.stderr)


@contextmanager
def showing_acceleration(*, is_shown: bool) -> Iterator[None]:
    """Print which modules of the models that are built inside are accelerated, and which are not
    and why, on the standard error."""
    log, handler = logging.getLogger("regard.compiled.accelerate"), _StandardError()
    level = log.level
    if is_shown:
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class _StandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def open_closed_streams() -> None:
    """Open the standard streams that were closed before the start (`>&-`), so that no file gets
    their numbers: reading and writing raise an OSError, and lines on the standard error are
    dropped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            refusing = os.O_WRONLY if name == "stdin" else os.O_RDONLY
            flags = os.O_WRONLY if name == "stderr" else refusing
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def drop_output() -> None:
    """Drop all output that is still buffered: Python would try to write it when it exits."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())


def with_own_options(message: str, options: type | None) -> str:
    """Return a message about a file that names the options of a command, instead of the fields of
    `regard train`, as far as the command has them."""
    names = {field.name for field in fields(options)} if is_dataclass(options) else set[str]()

    def own(match: re.Match[str]) -> str:
        name = match[1].replace("_", "-")
        return f"--{name}" if name.removeprefix("no-").replace("-", "_") in names else match[0]

    return FILE_FIELD.sub(own, message)


def check_different(read: Iterable[str], *written: Path | None) -> None:
    """Raise a UserError if two files to write are the same, if one of them is read, or if one has
    the name of a compressed file."""
    named = [path for path in written if path]
    for path in named:
        if path.suffix.lower() == ".gz":
            raise UserError(f"cannot write {path}: files are not compressed; leave out .gz")
    files = [resolved(path) for path in named if path.is_file() or not path.exists()]
    if len(set(files)) < len(files):
        names = " and ".join(map(str, named))
        raise UserError(f"two of the files to write are the same: {names}. Name different files")
    for name in read:
        if name != "-" and resolved(name) in files:
            raise UserError(f"{name} would be overwritten while it is read: write to another file")
