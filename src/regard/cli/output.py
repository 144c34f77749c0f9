"""Lines for a person, and what becomes of them where nobody reads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def say(text: str) -> None:
    """One line on the standard output. Where nobody reads it any more, as after `| head`, that is
    said once and the work goes on without."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        drop_output()
        warn("nobody reads the output any more: going on without it")


def warn(text: str) -> None:
    """One line on the standard error."""
    print(text, file=sys.stderr)


def drop_output() -> None:
    """What is still to be written has nowhere to go; without this Python would try once more."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
