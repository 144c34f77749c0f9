"""Handlers of SIGINT (Ctrl-C) and SIGTERM: one line, and exit status 130 or 143."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit status after SIGINT and after SIGTERM, as in shells."""
IMPORTING = "<frozen importlib._bootstrap>"
SECONDS = 0.02
"""Seconds between two checks for the end of an import."""

_waiting: list[int] = []
"""A signal that came during an import."""
_connecting: list[Callable[[int, FrameType | None], None]] = []
"""Handler of SIGTERM that `connected` installs."""


class TerminatedError(SystemExit):
    """SIGTERM came."""


def handle(program: str, *, connects: bool = False) -> None:
    """Raise KeyboardInterrupt at SIGINT and TerminatedError at SIGTERM. If the process `connects`
    to others, SIGTERM ends it at once until `connected` is called: a process that waits for others
    runs no handler, and has nothing to save.

    Some libraries turn an exception in their import into another one, or drop it. So the exception
    waits for the end of an import; a second signal during the import exits at once. A signal that
    was ignored when the program started stays ignored."""

    def act(number: int, frame: FrameType | None) -> None:
        if _is_import(frame):
            if _waiting or not hasattr(signal, "setitimer"):
                leave(program, number)
            _waiting.append(number)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
        elif number == signal.SIGTERM:
            raise TerminatedError(TERMINATED)
        else:
            raise KeyboardInterrupt

    def look(_number: int, frame: FrameType | None) -> None:
        if _is_import(frame):
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
        elif _waiting:
            number = _waiting.pop()
            handler = signal.getsignal(number)  # training may have set its own meanwhile
            if callable(handler):
                handler(number, frame)

    def report(unraisable: Any) -> None:
        """An exception in a destructor reaches no `except`."""
        if issubclass(unraisable.exc_type, TerminatedError):
            leave(program, signal.SIGTERM)
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            leave(program)
        sys.__unraisablehook__(unraisable)

    if connects:
        _connecting.append(act)
    for number in (signal.SIGINT,) if connects else (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, act)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, look)
    sys.unraisablehook = report


def connected() -> None:
    """Raise TerminatedError at SIGTERM from now on, if `handle` left this to this function."""
    while _connecting:
        handler = _connecting.pop()
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
            signal.signal(signal.SIGTERM, handler)


def ignore() -> None:
    """Ignore Ctrl-C from now on: the work is done, and the interpreter only cleans up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


def leave(program: str, number: int = signal.SIGINT) -> NoReturn:
    """Exit at once, without the cleanup of the interpreter."""
    is_end = number == signal.SIGTERM
    os.write(2, f"{program}: {'terminated' if is_end else 'interrupted'}\n".encode())
    os._exit(TERMINATED if is_end else INTERRUPTED)
