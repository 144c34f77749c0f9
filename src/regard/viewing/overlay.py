"""What each word of a caption looked at, on the picture itself.

      picture        a            large         circle
    +---------+   +---------+   +---------+   +---------+
    |  O      |   | (O)     |   | (O)     |   | (O)     |

Every word has the picture in the light of its weights. One scale holds for all words, up to the
largest weight of any, so that a word that looks everywhere is pale. Cells are shown as they are, or
smoothed.
"""

from __future__ import annotations

import math
import warnings
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
    empty_figure,
    missing_glyphs_said_already,
    widths,
    write,
)
from regard.viewing.fonts import Choice, Fonts, MachineFonts, MissingFontWarning, advice, choose
from regard.viewing.labels import LabelledMap, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 6
"""Panels in a row."""
PALEST = 0.15
"""How much of the picture's own light is left where nothing is looked at."""
GREY = (0.299, 0.587, 0.114)
"""How light red, green and blue are (ITU-R BT.601)."""

# Inches, and points for type. A panel has the area of a square of this side, but is no longer than
# two of them.
SIDE, GAP, NAME = 1.6, 0.12, 0.26
TYPE, SMALL = 10.0, 8.0
PICTURE = "picture"

Colours = UInt8[np.ndarray, "channel height width"]


def save(
    what: Trace | LabelledMap,
    picture: Colours,
    path: str | Path,
    *,
    smooth: bool = True,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning."""
    check_suffix(path)
    write(draw(what, picture, smooth=smooth, fonts=fonts), path)


def draw(
    what: Trace | LabelledMap,
    picture: Colours,
    *,
    smooth: bool = True,
    fonts: Fonts | None = None,
) -> Figure:
    """A figure with the picture and a panel for each word. The picture may be of any size and
    proportions: the cells are stretched to it. ValueError where the cells are no square, or nothing
    looked at cells."""
    looks = LabelledMap.of_words(what, "image") if isinstance(what, Trace) else what
    fonts = fonts or MachineFonts()
    names = choose([short(word) for word in looks.down], fonts, looks.languages[1])
    for line in advice(names):
        warnings.warn(line, MissingFontWarning, stacklevel=2)
    with missing_glyphs_said_already():
        return _figure(looks, names, picture.transpose(1, 2, 0), smooth=smooth)


def _figure(
    looks: LabelledMap,
    names: list[Choice],
    colours: UInt8[np.ndarray, "height width channel"],
    *,
    smooth: bool,
) -> Figure:
    width, height = _panel_size(*colours.shape[:2])
    columns = min(len(names) + 1, ACROSS)
    across = max(width, *widths(names, TYPE)) + GAP
    down = NAME + height + GAP
    page = columns * across - GAP, math.ceil((len(names) + 1) / ACROSS) * down + GAP
    figure = empty_figure(*page)

    def place(number: int) -> Axes:
        row, column = divmod(number, ACROSS)
        left, top = column * across + (across - GAP - width) / 2, row * down + NAME
        bounds = left / page[0], 1 - (top + height) / page[1], width / page[0], height / page[1]
        axes = figure.add_axes(bounds)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(linewidth=0.7, color=FRAME)
        return axes

    first = place(0)
    first.imshow(colours, aspect="auto")
    first.set_title(PICTURE, size=TYPE, color=QUIET, pad=3)
    seen = grids(looks)
    strongest = max(float(seen.max(initial=0)), 1e-9)
    grey = (colours @ np.array(GREY))[..., None]
    for number, (choice, grid) in enumerate(zip(names, seen, strict=True), start=1):
        share = _spread(grid / strongest, colours.shape[:2], smooth=smooth)[..., None]
        lit = PALEST * grey + (1 - PALEST) * share * colours
        axes = place(number)
        axes.imshow(np.rint(lit).astype(np.uint8), aspect="auto")
        axes.set_title(choice.label, family=list(choice.families), size=TYPE, color=INK, pad=3,
                       parse_math=False)  # fmt: skip
    told = [looks.title] * bool(looks.title) + [f"brightest: {strongest:.2f}"]
    figure.text(1, 0, ", ".join(told), size=SMALL, color=QUIET, ha="right", va="bottom")
    return figure


def _panel_size(height: int, width: int) -> tuple[float, float]:
    """Width and height in inches, in the picture's proportions."""
    longer = math.sqrt(max(width / height, height / width))
    side = SIDE * min(1.0, 2 / longer)
    return side * math.sqrt(width / height), side * math.sqrt(height / width)


def grids(looks: LabelledMap) -> Float[np.ndarray, "target row column"]:
    """What each word looked at, the mean over layers and heads, as squares of cells."""
    weights = looks.weights.mean(axis=(0, 1))
    side = math.isqrt(weights.shape[1])
    if side * side != weights.shape[1]:
        raise ValueError(f"{weights.shape[1]} cells are no square grid")
    return weights.reshape(len(weights), side, side)


def _spread(
    grid: Float[np.ndarray, "row column"], size: tuple[int, int], *, smooth: bool
) -> Float[np.ndarray, "height width"]:
    """The cells at the size of the picture: each as it is, or running into its neighbours."""
    places = [
        np.clip((np.arange(length) + 0.5) / length * len(grid) - 0.5, 0, len(grid) - 1)
        for length in size
    ]
    if not smooth:
        rows, columns = (np.rint(each).astype(int) for each in places)
        return grid[np.ix_(rows, columns)]
    low = [np.floor(each).astype(int) for each in places]
    high = [np.minimum(each + 1, len(grid) - 1) for each in low]
    down, across = (each - each_low for each, each_low in zip(places, low, strict=True))
    upper = grid[np.ix_(low[0], low[1])] * (1 - across) + grid[np.ix_(low[0], high[1])] * across
    lower = grid[np.ix_(high[0], low[1])] * (1 - across) + grid[np.ix_(high[0], high[1])] * across
    return upper * (1 - down[:, None]) + lower * down[:, None]
