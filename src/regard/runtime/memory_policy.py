"""Memory settings of the whole process: the allocator, and Python's garbage collection.

A model's largest arrays are allocated and freed in every update. By default the C library returns
them to the system and gets new pages, which the system clears and maps. This takes a third of the
time of small models on CPUs. `keep_freed_memory` changes that. Both settings hold for the whole
process. Therefore the command line makes them, and the library does not; a program of your own may.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Option numbers of glibc's malloc.h."""

NEVER = 2**31 - 1

CACHED_PRODUCTS = 64
"""Number of compiled products that a service keeps for each operation."""


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


def limit_cached_products() -> None:
    """Let PyTorch keep few compiled products, for a process that runs for days. oneDNN compiles a
    product for every shape, and PyTorch keeps a thousand of them for each operation: after some
    hours of requests of all lengths, half a gigabyte. No effect after the first product, or where
    the environment has these variables."""
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(CACHED_PRODUCTS))


def release_freed_memory() -> None:
    """Return the memory that this process has freed to the system, after an allocation failed."""
    gc.collect()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Import PyTorch and other modules without garbage collection, and exempt all present objects
    from later collections. Modules are never garbage, but searching them, during the import
    and at the end of the process, takes a quarter of the time of `import torch`. No effect if
    PyTorch is already imported."""
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def exempt_present_objects() -> None:
    """Exempt all present objects from later garbage collections. Once the models are loaded, a
    service keeps them, and a collection that searches them delays all requests by 0.1 to 0.5 s."""
    gc.collect()
    gc.freeze()
