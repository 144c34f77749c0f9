"""Tables with aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def format_table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return rows as lines with aligned columns. Empty columns are left out."""
    listed = list(rows)
    names = [name for name in listed[0] if any(row[name] is not None for row in listed)]
    cells = [[name.replace("_", " ") for name in names]]
    cells += [[_cell(name, row[name]) for name in names] for row in listed]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(not isinstance(row[name], str) for row in listed) for name in names]
    return [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    ]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}" if name.startswith("p_") else f"{value:.2f}"
    return str(value)
