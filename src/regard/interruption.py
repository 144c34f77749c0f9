"""Ctrl-C in a program of ours: one line and exit status 130, from the first import to the end."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit status after SIGINT and after SIGTERM, as shells have it."""
IMPORTING = "<frozen importlib._bootstrap>"


def handle(program: str) -> None:
    """Exit at once if Ctrl-C comes during an import, and raise KeyboardInterrupt at other times.

    Some libraries turn a KeyboardInterrupt in their import into another error, or drop it. A
    program that was started with SIGINT ignored goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if _is_import(frame):
            leave(program)
        raise KeyboardInterrupt

    def report(unraisable: Any) -> None:
        """A KeyboardInterrupt in a destructor reaches no `except`."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            leave(program)
        sys.__unraisablehook__(unraisable)

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = report


def ignore() -> None:
    """Ignore Ctrl-C from now on: the work is done, and the interpreter only cleans up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


def leave(program: str) -> NoReturn:
    """Exit now, without the interpreter's cleaning up."""
    os.write(2, f"{program}: interrupted\n".encode())
    os._exit(INTERRUPTED)
