"""Memory that was freed is kept for what is needed next.

A model's largest arrays are made and freed again in every update. By the C library's own settings
each goes back to the system and comes again as new pages, which the system has to clear and to map:
a third of the time of small models on CPUs. This changes the whole process, so it is for programs
and not for those who are called: the command line asks for it, and a program of your own may.
"""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of glibc's malloc.h."""

NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let this process keep what it frees; whether that could be done (glibc can, others need it
    less or have no such settings)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, NEVER))
