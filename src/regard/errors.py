"""Exceptions for wrong input, and parts of messages: numbers, lists and commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

NO_MEMORY = (
    "DefaultCPUAllocator",
    "out of memory",
    "Storage size calculation overflowed",
    "std::bad_alloc",
    "could not create a primitive",  # oneDNN, for its scratch memory
)
"""Signs of a failed allocation in messages of PyTorch."""


class UserError(Exception):
    """Error in one line: what came, what was expected and what to do. The command line prints it
    without a traceback and exits with its status."""

    STATUS = 1
    """Exit status of the command line."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends with an s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first texts for a message, and the number of the others."""
    end = separator.strip(", ")
    more = f"{end} and {len(texts) - most:,} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def install_command(*packages: str) -> str:
    """Return the command that installs packages for the Python that is running."""
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join(packages)}"


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an allocation failed. PyTorch raises a RuntimeError with one of these
    messages."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in NO_MEMORY)


class UsageError(UserError):
    """Invalid command-line arguments."""

    STATUS = 2
    """Exit status, as of other programs."""


class ConnectionLostError(UserError):
    """Another process ended, so this one cannot continue."""

    STATUS = 3
    """Tells `regard train --processes` that another process failed first."""
