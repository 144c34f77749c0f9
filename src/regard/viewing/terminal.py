"""Attention map as text, with per cents in the cells if there is room.

   four   hundred  twenty
v  ██ 97  ·        ·
i  ██ 88  ░░ 11    ·
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from regard.trace import Trace
from regard.viewing.colours import hexadecimal, ink
from regard.viewing.labels import LabelledMap, labelled, short

if TYPE_CHECKING:
    import numpy as np
    from rich.text import Text

Cell = Callable[[float, int], tuple[str, str]]
"""Function from a weight and a number of terminal columns to text and style. The first column
separates cells if the cell is wide enough."""

SHADES = ((0.8, "█"), (0.55, "▓"), (0.3, "▒"), (0.05, "░"))
NOTHING = "·"
BLOCKS = 2
"""Largest number of block characters in a cell."""
NUMBERED, NARROW, NARROWEST = 6, 3, 2
"""Terminal columns of a cell with per cents, of a cell without, and of a cell without a gap."""
TALLEST = 14
"""Largest number of lines of a vertical header."""
LEFT_TO_RIGHT = "\u200e"
"""Mark that keeps a reordering terminal from treating the whole line as right-to-left."""


def shaded(weight: float, columns: int) -> tuple[str, str]:
    """Return a cell of block characters, for a terminal without colours, a pipe or a file."""
    gap = min(1, columns - 1)
    room = columns - gap
    block = next((block for minimum, block in SHADES if weight >= minimum), NOTHING)
    if block == NOTHING:
        return " " * gap + NOTHING.ljust(room), ""
    number = f"{round(100 * weight):3d}" if columns >= NUMBERED else ""
    return " " * gap + (block * min(BLOCKS, room) + number).ljust(room), ""


def painted(weight: float, columns: int) -> tuple[str, str]:
    """Return a coloured cell, with the colours of the figures."""
    percent = round(100 * weight)
    number = str(percent) if percent and columns >= NARROW else ""
    return number.center(columns), f"{ink(weight)} on {hexadecimal(weight)}"


def draw(attention: Trace | LabelledMap, *, width: int = 80, cell: Cell = shaded) -> Text:
    """Return text for rich; `.plain` is a string. No line is longer than `width` columns; at least
    five columns are used.

    Column labels are horizontal if they fit, else vertical. Columns that do not fit follow in
    blocks below. Several heads are drawn one below the other."""
    from rich.text import Text

    labelled_map = labelled(attention)
    blocks = [[Text(labelled_map.title, style="bold")]] if labelled_map.title else []
    for name, weights in labelled_map.panels():
        heading = [Text(name, style="dim")] if name else []
        for block in _blocks(labelled_map, weights, width, cell):
            blocks.append(heading + block)
            heading = []
    if labelled_map.note:
        blocks.append([Text(labelled_map.note, style="dim")])
    lines = Text("\n\n").join(Text("\n").join(block) for block in blocks)
    lines.no_wrap = True
    return lines


def legend(
    *, width: int = 80, cell: Cell = shaded, quantity: str = "weight", scale: float = 1.0
) -> Text:
    """Return the meaning of the cells as text for rich, in lines of at most `width` columns.
    `quantity` is the name of the numbers, and `scale` the number of 100 per cent (`LabelledMap`
    has both)."""
    from rich.text import Text

    if cell is painted:
        steps = (0.0, 0.25, 0.5, 0.75, 1.0)
        entries = [Text.assemble(painted(weight, NUMBERED)) for weight in steps]
        entries[0] = Text.assemble(("0".center(NUMBERED), painted(0.0, NUMBERED)[1]))
    else:
        entries = [Text(f"{NOTHING} below {100 * SHADES[-1][0]:.0f}")]
        entries += [Text(f"{block} from {100 * least:.0f}") for least, block in SHADES[::-1]]
    unit = "per cent" if scale == 1 else f"per cent of the largest ({scale:.2g})"
    lines = [Text(line, style="dim") for line in wrap(f"{quantity} in {unit}:", width)]
    for entry in entries:
        if lines[-1].cell_len + 2 + entry.cell_len > width:
            lines.append(entry)
        else:
            lines[-1] = Text("  ").join([lines[-1], entry])
    text = Text("\n").join(lines)
    text.no_wrap = True
    return text


def _blocks(
    labelled_map: LabelledMap, weights: np.ndarray, width: int, cell: Cell
) -> Iterator[list[Text]]:
    """Yield blocks of columns of the map, each at most `width` terminal columns wide."""
    from rich.cells import cell_len
    from rich.text import Text

    column_labels = [short(label) for label in labelled_map.column_labels]
    row_labels = [short(label) for label in labelled_map.row_labels]
    margin = min(max(map(cell_len, row_labels)), max(width // 3, 1))
    room = max(width - margin - 1, NARROWEST)
    scale = labelled_map.scale
    columns = [max(cell_len(label) + 2, NUMBERED) for label in column_labels]
    is_horizontal = sum(columns) <= room
    if not is_horizontal:
        fitting = (size for size in (NUMBERED, NARROW) if size * len(column_labels) <= room)
        columns = [next(fitting, NARROWEST)] * len(column_labels)
    max_columns = room // NARROWEST if not is_horizontal else len(column_labels)
    for first in range(0, len(column_labels), max_columns):
        part = slice(first, first + max_columns)
        header = _horizontal if is_horizontal else _vertical
        lines = [
            Text(" " * (margin + 1) + line) for line in header(column_labels[part], columns[part])
        ]
        for label, row in zip(row_labels, weights, strict=True):
            cells = [
                cell(float(weight) / scale, size)
                for weight, size in zip(row[part], columns[part], strict=True)
            ]
            lines.append(Text.assemble(f"{_fit(label, margin, right=True)} ", *cells))
        for line in lines:
            if not line.spans:
                line.rstrip()
        yield lines


def _horizontal(labels: list[str], columns: list[int]) -> list[str]:
    return [
        "".join(f" {_fit(label, size - 1)}" for label, size in zip(labels, columns, strict=True))
    ]


def _vertical(labels: list[str], columns: list[int]) -> list[str]:
    """Return vertical headers, aligned at the bottom."""
    stacks = [_letters(label) for label in labels]
    stacks = [stack if len(stack) <= TALLEST else [*stack[: TALLEST - 1], "…"] for stack in stacks]
    tallest = max(map(len, stacks))
    stacks = [[""] * (tallest - len(stack)) + stack for stack in stacks]
    return [
        "".join(
            _fit(" " * (size > NARROWEST) + stack[line], size)
            for stack, size in zip(stacks, columns, strict=True)
        )
        for line in range(tallest)
    ]


def _letters(label: str) -> list[str]:
    """Split a label into characters, each with its combining marks."""
    letters: list[str] = []
    for character in label:
        if letters and unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf"):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _fit(label: str, columns: int, *, right: bool = False) -> str:
    """Return the label at this width in terminal columns, cut off or padded with blanks."""
    from rich.cells import cell_len

    if cell_len(label) > columns:  # rich's own cut is too wide behind a joiner
        ends = range(len(label), -1, -1)
        label = next(cut for end in ends if cell_len(cut := f"{label[:end]}…") <= columns)
    blanks = " " * (columns - cell_len(label))
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in label):
        label = f"{LEFT_TO_RIGHT}{label}{LEFT_TO_RIGHT}"
    return blanks + label if right else label + blanks
