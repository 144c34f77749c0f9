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
from regard.viewing.fonts import Fonts, MachineFonts, MissingFontWarning, advice, choose
from regard.viewing.labels import short
from regard.viewing.picture import (
    FRAME,
    INK,
    QUIET,
    check_suffix,
    empty_figure,
    missing_glyphs_said_already,
    write,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 6
"""Panels in a row."""
PALEST = 0.15
"""How much of the picture's own light is left where nothing is looked at."""

# Inches, and points for type.
SIDE, GAP, NAME = 1.35, 0.12, 0.26
TYPE, SMALL = 10.0, 8.0


def save(
    trace: Trace,
    picture: UInt8[np.ndarray, "channel height width"],
    path: str | Path,
    *,
    smooth: bool = True,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning."""
    check_suffix(path)
    write(draw(trace, picture, smooth=smooth, fonts=fonts), path)


def draw(
    trace: Trace,
    picture: UInt8[np.ndarray, "channel height width"],
    *,
    smooth: bool = True,
    fonts: Fonts | None = None,
) -> Figure:
    """A figure with the picture and a panel for each piece. ValueError where the cells are no
    square, or nothing looked at cells."""
    fonts = fonts or MachineFonts()
    names = choose([short(piece) for piece in trace.target.pieces], fonts, trace.target.language)
    for line in advice(names):
        warnings.warn(line, MissingFontWarning, stacklevel=2)
    seen = grids(trace)
    colour = picture.transpose(1, 2, 0) / 255
    grey = np.repeat((colour @ np.array([0.299, 0.587, 0.114]))[..., None], 3, axis=2)
    rows = math.ceil((len(names) + 1) / ACROSS)
    columns = min(len(names) + 1, ACROSS)
    width = columns * (SIDE + GAP) + 0.6
    height = rows * (SIDE + NAME + GAP)
    with missing_glyphs_said_already():
        figure = empty_figure(width, height)
        strongest = max(float(seen.max(initial=0)), 1e-9)
        for number in range(len(names) + 1):
            row, column = divmod(number, ACROSS)
            top = row * (SIDE + NAME + GAP) + NAME
            axes = figure.add_axes(
                (
                    column * (SIDE + GAP) / width,
                    1 - (top + SIDE) / height,
                    SIDE / width,
                    SIDE / height,
                )
            )
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set(linewidth=0.7, color=FRAME)
            if number == 0:
                axes.imshow(colour)
                axes.set_title("picture", size=TYPE, color=QUIET, pad=3)
                continue
            share = _spread(seen[number - 1] / strongest, colour.shape[:2], smooth=smooth)
            axes.imshow(PALEST * grey + (1 - PALEST) * share[..., None] * colour)
            choice = names[number - 1]
            axes.set_title(choice.label, family=list(choice.families), size=TYPE, color=INK, pad=3,
                           parse_math=False)  # fmt: skip
        figure.text(1 - 0.05 / width, 0.02, f"brightest: {strongest:.2f}", size=SMALL, color=QUIET,
                    ha="right", va="bottom")  # fmt: skip
    return figure


def grids(trace: Trace) -> Float[np.ndarray, "target row column"]:
    """What each piece looked at, the mean over layers, heads and models, as squares of cells."""
    maps = [each.weights.mean(axis=(0, 1)) for each in trace.maps("image")]
    weights = np.mean(maps, axis=0)
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
