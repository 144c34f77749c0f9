"""Allocator settings that keep freed memory in the process.

A model's largest arrays are allocated and freed in every update. By default the C library returns
them to the system and gets new pages, which the system clears and maps. This takes a third of the
time of small models on CPUs. The setting changes the whole process. Therefore the command line sets
it, and the library does not; a program of your own may call it.
"""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Option numbers of glibc's malloc.h."""

NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees. Return whether the setting was applied: only
    glibc has it, and other allocators need it less."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, NEVER))
