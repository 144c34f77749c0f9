"""Attention of each word of a caption, drawn on the image.

      image          a            large         circle
    +---------+   +---------+   +---------+   +---------+
    |  O      |   | (O)     |   | (O)     |   | (O)     |

The panel of a word shows the image with a brightness that follows the weights of the word. All
words share one scale, up to the largest weight, so a word that attends evenly is pale. Cells are
shown as squares or smoothed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.trace import Trace
from regard.viewing.figure import (
    FRAME,
    INK,
    QUIET,
    check_suffix,
    choose_fonts,
    empty_figure,
    widths,
    without_glyph_warnings,
    write,
)
from regard.viewing.fonts import Choice, Fonts
from regard.viewing.labels import LabelledMap, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = 6
"""Number of panels in a row."""
PALEST = 0.15
"""Brightness of cells without weight, relative to the image."""
LUMA = (0.299, 0.587, 0.114)
"""Luma coefficients of red, green and blue (ITU-R BT.601)."""

# Inches, and points for type. A panel has the area of a square of this side; no side of a panel is
# longer than two sides of the square.
SIDE, GAP, NAME = 1.6, 0.12, 0.26
TYPE, SMALL = 10.0, 8.0
IMAGE = "image"

Colours = UInt8[np.ndarray, "channel height width"]


def save(
    attention: Trace | LabelledMap,
    image: Colours,
    path: str | Path,
    *,
    smooth: bool = True,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning. UserError for any other
    suffix."""
    check_suffix(path)
    write(draw(attention, image, smooth=smooth, fonts=fonts), path)


def draw(
    attention: Trace | LabelledMap,
    image: Colours,
    *,
    smooth: bool = True,
    fonts: Fonts | None = None,
) -> Figure:
    """Return a figure with the image and a panel for each word. The image may have any size and
    proportions: the grid of cells is stretched to it. ValueError if the number of cells is not a
    square, or if the trace has no attention to an image."""
    words = LabelledMap.of_words(attention, "image") if isinstance(attention, Trace) else attention
    (names,) = choose_fonts((list(map(short, words.row_labels)), words.languages[1]), fonts=fonts)
    with without_glyph_warnings():
        return _figure(words, names, image.transpose(1, 2, 0), smooth=smooth)


def _figure(
    words: LabelledMap,
    names: list[Choice],
    colours: UInt8[np.ndarray, "height width channel"],
    *,
    smooth: bool,
) -> Figure:
    width, height = _panel_size(*colours.shape[:2])
    columns = min(len(names) + 1, PANELS)
    panel_width = max(width, *widths(names, TYPE)) + GAP
    panel_height = NAME + height + GAP
    page = columns * panel_width - GAP, math.ceil((len(names) + 1) / PANELS) * panel_height + GAP
    figure = empty_figure(*page)

    def place(number: int) -> Axes:
        row, column = divmod(number, PANELS)
        left, top = (
            column * panel_width + (panel_width - GAP - width) / 2,
            row * panel_height + NAME,
        )
        bounds = left / page[0], 1 - (top + height) / page[1], width / page[0], height / page[1]
        axes = figure.add_axes(bounds)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(linewidth=0.7, color=FRAME)
        return axes

    first = place(0)
    first.imshow(colours, aspect="auto")
    first.set_title(IMAGE, size=TYPE, color=QUIET, pad=3)
    maps = grids(words)
    largest = max(float(maps.max(initial=0)), 1e-9)
    grey = (colours @ np.array(LUMA))[..., None]
    for number, (choice, grid) in enumerate(zip(names, maps, strict=True), start=1):
        weight = _resized(grid / largest, colours.shape[:2], smooth=smooth)[..., None]
        lit = PALEST * grey + (1 - PALEST) * weight * colours
        axes = place(number)
        axes.imshow(np.rint(lit).astype(np.uint8), aspect="auto")
        axes.set_title(choice.label, family=list(choice.families), size=TYPE, color=INK, pad=3,
                       parse_math=False)  # fmt: skip
    notes = [words.title] * bool(words.title) + [f"brightest: {largest:.2f}"]
    figure.text(1, 0, ", ".join(notes), size=SMALL, color=QUIET, ha="right", va="bottom")
    return figure


def _panel_size(height: int, width: int) -> tuple[float, float]:
    """Return the width and height of a panel in inches, in the proportions of the image."""
    longer = math.sqrt(max(width / height, height / width))
    side = SIDE * min(1.0, 2 / longer)
    return side * math.sqrt(width / height), side * math.sqrt(height / width)


def grids(words: LabelledMap) -> Float[np.ndarray, "target row column"]:
    """Return the weights of each word as a square grid of cells, averaged over layers and heads.
    ValueError if the number of cells is not a square."""
    weights = words.weights.mean(axis=(0, 1))
    side = math.isqrt(weights.shape[1])
    if side * side != weights.shape[1]:
        raise ValueError(f"expected a square grid of cells, got {weights.shape[1]} cells")
    return weights.reshape(len(weights), side, side)


def _resized(
    grid: Float[np.ndarray, "row column"], size: tuple[int, int], *, smooth: bool
) -> Float[np.ndarray, "height width"]:
    """Resize a grid of cells to the size of the image, with nearest or with linear
    interpolation."""
    positions = [
        np.clip((np.arange(length) + 0.5) / length * len(grid) - 0.5, 0, len(grid) - 1)
        for length in size
    ]
    if not smooth:
        rows, columns = (np.rint(axis).astype(int) for axis in positions)
        return grid[np.ix_(rows, columns)]
    low = [np.floor(axis).astype(int) for axis in positions]
    high = [np.minimum(axis + 1, len(grid) - 1) for axis in low]
    row_shares, column_shares = (
        axis - axis_low for axis, axis_low in zip(positions, low, strict=True)
    )
    upper = (
        grid[np.ix_(low[0], low[1])] * (1 - column_shares)
        + grid[np.ix_(low[0], high[1])] * column_shares
    )
    lower = (
        grid[np.ix_(high[0], low[1])] * (1 - column_shares)
        + grid[np.ix_(high[0], high[1])] * column_shares
    )
    return upper * (1 - row_shares[:, None]) + lower * row_shares[:, None]
