"""The legend of axis names explains the axes of the package's tensor types."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import regard
from regard import shapes

SOURCES = Path(regard.__file__).parent
TYPE = re.compile(r'\b(?:Bool|Float|Int|Shaped|UInt8)\[[\w.]+,\s*"([^"]*)"')
NAME = re.compile(r"[a-z][a-z_]*")


def legend() -> set[str]:
    rows = re.findall(r"^\| ([a-z, ]+) \|", shapes.__doc__ or "", re.MULTILINE)
    return {name for row in rows for name in row.split(", ")} - {"axis"}


def files_of_axes() -> dict[str, set[Path]]:
    files = defaultdict[str, set[Path]](set)
    for path in SOURCES.rglob("*.py"):
        for shape in TYPE.findall(path.read_text()):
            for name in NAME.findall(shape):
                files[name].add(path)
    return files


def test_the_legend_has_every_axis_that_two_files_use():
    assert {name for name, files in files_of_axes().items() if len(files) > 1} <= legend()


def test_every_axis_of_the_legend_is_used():
    assert legend() <= set(files_of_axes())
