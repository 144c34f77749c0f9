"""The library that computes each float32 matrix product on a CPU, from a table of measurements.

`product_library.tsv` has the faster library for each vendor, instruction set and class of shape.
benchmarks/products.py measures a CPU and writes its rows. Nothing is measured when a program
starts, so two starts on one machine give equal results. A training records its choice and keeps it
when it is resumed, also on another machine (`using`).

    small            fewer than 2^22 multiplications
    few_rows         at most 127 rows: a step of a recurrent layer, a step of a search
    many_rows        at least 128 rows: all positions of a batch
    small_gradient   gradient of a weight with fewer than 2^17 numbers
    gradient         gradient of a larger weight
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from typing import cast, get_args

import torch

from regard.names import ProductLibrary, ShapeClass
from regard.runtime import instruction_set

TABLE = Path(__file__).with_suffix(".tsv")
CPUINFO = Path("/proc/cpuinfo")

SHAPE_CLASSES: tuple[ShapeClass, ...] = get_args(ShapeClass)

SMALL = 1 << 22
"""Minimum number of multiplications of a product that is not small."""
MANY_ROWS = 128
SMALL_WEIGHT = 1 << 17

ONEDNN: dict[ShapeClass, ProductLibrary] = dict.fromkeys(SHAPE_CLASSES, "onednn")
"""Choice for CPUs that are not in the table, and of runs without a record of their choice."""


def class_of_product(rows: int, inner: int, columns: int) -> ShapeClass:
    """Return the class of a product of (rows, inner) and (inner, columns)."""
    if rows * inner * columns < SMALL:
        return "small"
    return "few_rows" if rows < MANY_ROWS else "many_rows"


def class_of_gradient(rows: int, inner: int, columns: int) -> ShapeClass:
    """Return the class of the gradient of a weight (columns, inner), for this number of rows."""
    if rows * inner * columns < SMALL:
        return "small"
    return "small_gradient" if inner * columns < SMALL_WEIGHT else "gradient"


def library_for(shape_class: ShapeClass) -> ProductLibrary:
    """Return the library for the products of a class."""
    return _current[shape_class]


def needs_onednn() -> bool:
    """Whether oneDNN computes any class of products."""
    return "onednn" in _current.values()


def current() -> dict[str, str]:
    """Return the library of each class, as a training records it."""
    return {str(name): library for name, library in _current.items()}


@contextmanager
def using(recorded: Mapping[str, str]) -> Iterator[None]:
    """Use a recorded choice in this process until the block ends. Without a record oneDNN computes
    all products, as in versions without a table.

    ValueError for unknown classes and libraries. RuntimeError if a block of another thread has
    another choice, which would change the results of its products."""
    global _current, _outside
    thread, libraries = get_ident(), {**ONEDNN, **checked(recorded)}
    with _lock:
        if any(other != thread and used != libraries for other, used in _blocks):
            raise RuntimeError(
                "another thread trains with other libraries of products: train in two processes, "
                "or one after the other"
            )
        _outside = _outside if _blocks else _current
        _blocks.append((thread, libraries))
        _current = libraries
    try:
        yield
    finally:
        with _lock:
            _blocks.remove((thread, libraries))
            _current = _blocks[-1][1] if _blocks else _outside


def checked(recorded: Mapping[str, str]) -> Mapping[ShapeClass, ProductLibrary]:
    """Return a choice; ValueError for unknown classes and libraries."""
    for name, library in recorded.items():
        if name not in SHAPE_CLASSES or library not in get_args(ProductLibrary):
            raise ValueError(
                f"library of products {name}={library}: expected one of {', '.join(SHAPE_CLASSES)} "
                f"with one of {', '.join(get_args(ProductLibrary))}"
            )
    return cast("Mapping[ShapeClass, ProductLibrary]", recorded)


def choice(vendor: str, instructions: str) -> dict[ShapeClass, ProductLibrary]:
    """Return the library of each class on a CPU. The rows of the table for the instruction set
    `any` hold for those that have no rows; oneDNN computes the classes without a row."""
    rows = table()
    libraries = rows.get((vendor, instructions), rows.get((vendor, "any"), {}))
    return {**ONEDNN, **libraries}


@cache
def table() -> dict[tuple[str, str], dict[ShapeClass, ProductLibrary]]:
    """Return the libraries of the shipped table by vendor and instruction set."""
    rows: dict[tuple[str, str], dict[ShapeClass, ProductLibrary]] = {}
    for line in TABLE.read_text(encoding="utf8").splitlines()[1:]:
        vendor, instructions, name, library, *_ = line.split("\t")
        rows.setdefault((vendor, instructions), {}).update(checked({name: library}))
    return rows


def vendor() -> str:
    """Return the vendor of this CPU: AMD, Intel or other."""
    try:
        text = CPUINFO.read_text(encoding="utf8", errors="replace")
    except OSError:
        text = platform.processor()
    names = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
    return next((name for written, name in names.items() if written in text), "other")


def instructions() -> str:
    """Return the largest instruction set of PyTorch on this CPU, within the limit for tests."""
    names = {"AVX512": "avx512", "AVX2": "avx2"}
    name = names.get(torch.backends.cpu.get_cpu_capability(), "baseline")
    limit = instruction_set.limit()
    return name if limit is None else min(name, limit, key=instruction_set.LANES.__getitem__)


_current = _outside = choice(vendor(), instructions())
"""The choice in use, and that outside of all blocks of `using`."""
_lock = Lock()
_blocks: list[tuple[int, dict[ShapeClass, ProductLibrary]]] = []
"""Thread and choice of each active block of `using`."""
