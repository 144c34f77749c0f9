"""Attention as text, with per cents in the cells where there is room.

   four   hundred  twenty
v  ██  97 ·        ·
i  ██  88 ░░░░  11 ·
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from regard.trace import Trace
from regard.viewing.colours import hexadecimal, ink
from regard.viewing.labels import LabelledMap, labelled, short

if TYPE_CHECKING:
    import numpy as np
    from rich.text import Text

Cell = Callable[[float, int], tuple[str, str]]
"""Text and style of a weight in so many columns of the terminal. The first column keeps cells
apart where it can."""

SHADES = ((0.8, "█"), (0.55, "▓"), (0.3, "▒"), (0.05, "░"))
NOTHING = "·"
NUMBERED, NARROW, NARROWEST = 6, 3, 2
"""Columns of a cell with its per cents, of one without, and of one without a gap."""
TALLEST = 14
"""Lines of a header that runs downwards."""
LEFT_TO_RIGHT = "\u200e"
"""Keeps a terminal that reorders from taking the whole line for right-to-left."""


def shaded(weight: float, columns: int) -> tuple[str, str]:
    """Blocks, for a terminal without colours, a pipe or a file."""
    gap = min(1, columns - 1)
    room = columns - gap
    block = next((block for least, block in SHADES if weight >= least), NOTHING)
    if block == NOTHING:
        return " " * gap + NOTHING.ljust(room), ""
    number = f"{round(100 * weight):3d}" if columns >= NUMBERED else ""
    return " " * gap + block * (room - len(number)) + number, ""


def painted(weight: float, columns: int) -> tuple[str, str]:
    """Coloured cells, as in the pictures."""
    percent = round(100 * weight)
    number = str(percent) if percent and columns >= NARROW else ""
    return number.center(columns), f"{ink(weight)} on {hexadecimal(weight)}"


def draw(what: Trace | LabelledMap, *, width: int = 80, cell: Cell = shaded) -> Text:
    """Text for rich to print; `.plain` is a string. No line is longer than `width` columns, but
    for the five that it takes at least.

    Words stand across where they fit, else downwards; columns that do not fit follow below. Several
    heads come one after the other."""
    from rich.text import Text

    picture = labelled(what)
    blocks = [[Text(picture.title, style="bold")]] if picture.title else []
    for name, weights in picture.panels():
        heading = [Text(name, style="dim")] if name else []
        for block in _blocks(picture, weights, width, cell):
            blocks.append(heading + block)
            heading = []
    lines = Text("\n\n").join(Text("\n").join(block) for block in blocks)
    lines.no_wrap = True
    return lines


def _blocks(
    picture: LabelledMap, weights: np.ndarray, width: int, cell: Cell
) -> Iterator[list[Text]]:
    """The map, cut into as many blocks of columns as the width demands."""
    from rich.cells import cell_len
    from rich.text import Text

    across = [short(label) for label in picture.across]
    down = [short(label) for label in picture.down]
    margin = min(max(map(cell_len, down)), max(width // 3, 1))
    room = max(width - margin - 1, NARROWEST)
    columns = [max(cell_len(label) + 2, NUMBERED) for label in across]
    is_level = sum(columns) <= room
    if not is_level:
        fitting = (size for size in (NUMBERED, NARROW) if size * len(across) <= room)
        columns = [next(fitting, NARROWEST)] * len(across)
    most = room // NARROWEST if not is_level else len(across)
    for first in range(0, len(across), most):
        part = slice(first, first + most)
        header = _level if is_level else _downwards
        lines = [Text(" " * (margin + 1) + line) for line in header(across[part], columns[part])]
        for label, row in zip(down, weights, strict=True):
            cells = [
                cell(float(weight), size)
                for weight, size in zip(row[part], columns[part], strict=True)
            ]
            lines.append(Text.assemble(f"{_fit(label, margin, right=True)} ", *cells))
        for line in lines:
            if not line.spans:
                line.rstrip()
        yield lines


def _level(labels: list[str], columns: list[int]) -> list[str]:
    return [
        "".join(f" {_fit(label, size - 1)}" for label, size in zip(labels, columns, strict=True))
    ]


def _downwards(labels: list[str], columns: list[int]) -> list[str]:
    """Headers written from top to bottom; their ends stand on the map."""
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
    """Characters, each with the marks that belong to it."""
    letters: list[str] = []
    for character in label:
        if letters and unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf"):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _fit(label: str, columns: int, *, right: bool = False) -> str:
    """Exactly so many columns wide, cut off or filled up with blanks."""
    from rich.cells import cell_len

    if cell_len(label) > columns:  # rich's own cut is too wide behind a joiner
        ends = range(len(label), -1, -1)
        label = next(cut for end in ends if cell_len(cut := f"{label[:end]}…") <= columns)
    blanks = " " * (columns - cell_len(label))
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in label):
        label = f"{LEFT_TO_RIGHT}{label}{LEFT_TO_RIGHT}"
    return blanks + label if right else label + blanks
