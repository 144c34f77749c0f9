"""Lines on the standard output and the standard error."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def say(text: str) -> None:
    """Print a line. If the reader of a pipe has closed it, as `| head` does, warn once and drop all
    further output; the work continues."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        drop_output()
        warn("the output is closed: continuing without output")


def warn(text: str) -> None:
    """Print a line on the standard error."""
    print(text, file=sys.stderr)


def drop_output() -> None:
    """Drop all output that is still buffered: Python would try to write it when it exits."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
