"""The exception for wrong input, and the command that messages on missing packages name."""

from __future__ import annotations

import shlex
import sys


class UserError(Exception):
    """Error in one line: what came, what was expected and what to do. The command line prints it
    without a traceback and exits with a non-zero status."""


def install_command(*packages: str) -> str:
    """Return the command that installs packages for the Python that is running."""
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join(packages)}"


class UsageError(UserError):
    """Invalid command-line arguments."""

    STATUS = 2
    """Exit status, as of other programs and of tyro."""
