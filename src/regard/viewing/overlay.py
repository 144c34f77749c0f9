"""Attention of each word of a caption, drawn on the image.

      image          a            large         circle
    +---------+   +---------+   +---------+   +---------+
    |  O      |   | (O)     |   | (O)     |   | (O)     |

The panel of a word shows the image in pale colours, and over it the weights of the word as
transparent colours. All words share one scale, up to the
largest weight of the image, or each word has its own. Cells are shown as squares or smoothed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.names import OverlayScale
from regard.trace import Trace
from regard.viewing.colours import FILM
from regard.viewing.figure import (
    FRAME,
    INK,
    PLAIN,
    QUIET,
    Style,
    check_suffix,
    choose_fonts,
    empty_figure,
    scale_to,
    widths,
    without_glyph_warnings,
    write,
)
from regard.viewing.fonts import Choice, Fonts
from regard.viewing.labels import LabelledMap, short, spaced, uniformity_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = 6
"""Number of panels in a row."""
CONTRAST, LIGHTNESS = 0.55, 0.45
"""Contrast of the image under the colours, and brightness of its black areas, from 0 to 1."""
SATURATION = 0.5
"""Saturation of the image under the colours: without any, shapes of equal brightness vanish."""
DEEPEST = 0.75
"""Place of the largest weight on the colour scale: darker colours would hide the image."""
LUMA = (0.299, 0.587, 0.114)
"""Luma coefficients of red, green and blue (ITU-R BT.601)."""

# Inches, and points for type. A panel has the area of a square of this side; no side of a panel is
# longer than two sides of the square.
SIDE, GAP, NAME = 1.6, 0.12, 0.26
FOOT = 0.2
BAR = 0.9, 0.1
"""Width and height of the colour scale."""
TYPE, SMALL = 10.0, 8.0
HALO = 2.2
"""Width of the white line around the number in a panel, which makes it legible on dark colours."""
IMAGE = "image"

Colours = UInt8[np.ndarray, "channel height width"]


@dataclass(frozen=True)
class OverlaySettings:
    """Drawing of weights on an image: smoothed or as cells, and the weights that share a scale."""

    smooth: bool = True
    scale: OverlayScale = "image"


SMOOTH = OverlaySettings()


def save(
    attention: Trace | LabelledMap,
    image: Colours,
    path: str | Path,
    *,
    settings: OverlaySettings = SMOOTH,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning. UserError for any other
    suffix."""
    check_suffix(path)
    figure = draw(attention, image, settings=settings, style=style, fonts=fonts)
    write(figure, path, style.dots)


def draw(
    attention: Trace | LabelledMap,
    image: Colours,
    *,
    settings: OverlaySettings = SMOOTH,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> Figure:
    """Return a figure with the image and a panel for each word. The image may have any size and
    proportions: the grid of cells is stretched to it. `source_name` of the style is the name of the
    image. ValueError if the number of cells is not a square, if weights are not finite, if the
    image does not have three channels, or if the trace has no attention to an image."""
    if image.ndim != 3 or len(image) != len(LUMA) or not image.size:
        raise ValueError(f"the image must have the shape (3, height, width), got {image.shape}")
    words = LabelledMap.of_words(attention, "image") if isinstance(attention, Trace) else attention
    names, titles = choose_fonts(
        (list(map(short, words.row_labels)), words.languages[1]),
        ([spaced(style.title)] if style.title else [], words.languages[1]),
        fonts=fonts,
    )
    with without_glyph_warnings():
        figure = _figure(words, names, image.transpose(1, 2, 0), settings, style)
        for title in titles:
            figure.text(0, 1, title.label, family=list(title.families), parse_math=False,
                        size=TYPE + 1, color=INK, va="bottom", ha="left")  # fmt: skip
        scale_to(figure, style.width)
        return figure


def _figure(
    words: LabelledMap,
    names: list[Choice],
    colours: UInt8[np.ndarray, "height width channel"],
    settings: OverlaySettings,
    style: Style,
) -> Figure:
    from matplotlib.patheffects import withStroke

    width, height = _panel_size(*colours.shape[:2])
    columns = min(len(names) + 1, PANELS)
    panel_width = max(width, *widths(names, TYPE)) + GAP
    panel_height = NAME + height + GAP
    num_rows = math.ceil((len(names) + 1) / PANELS)
    page = columns * panel_width - GAP, num_rows * panel_height + FOOT
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
    first.set_title(spaced(style.source_name or IMAGE), size=TYPE, color=QUIET, pad=3,
                    parse_math=False)  # fmt: skip
    maps = grids(words)
    largest = max(float(maps.max(initial=0)), 1e-9)
    has_own_scales = settings.scale == "word"
    halo = withStroke(linewidth=HALO, foreground="white")
    for number, (choice, grid) in enumerate(zip(names, maps, strict=True), start=1):
        top = max(float(grid.max()), 1e-9) if has_own_scales else largest
        weight = _resized(grid / top, colours.shape[:2], smooth=settings.smooth)
        axes = place(number)
        axes.imshow(under_film(colours, weight), aspect="auto")
        axes.set_title(choice.label, family=list(choice.families), size=TYPE, color=INK, pad=3,
                       parse_math=False)  # fmt: skip
        if has_own_scales:
            axes.text(0.97, 0.03, f"{top:.2g}", transform=axes.transAxes, size=SMALL, color=INK,
                      ha="right", va="bottom", path_effects=[halo])  # fmt: skip
    _foot(figure, _notes(words, maps, settings), page)
    return figure


def under_film(
    colours: UInt8[np.ndarray, "height width channel"], weight: Float[np.ndarray, "height width"]
) -> UInt8[np.ndarray, "height width channel"]:
    """Return an image in pale colours under the colours of weights from 0 to 1."""
    grey = (colours @ np.array(LUMA))[..., None]
    pale = LIGHTNESS + CONTRAST / 255 * (grey + SATURATION * (colours - grey))
    places = np.rint(weight.clip(0, 1) * DEEPEST * (len(FILM) - 1)).astype(int)
    return np.rint(255 * pale * FILM[places]).astype(np.uint8)


def _notes(
    words: LabelledMap, maps: Float[np.ndarray, "target row column"], settings: OverlaySettings
) -> str:
    """Return the explanation of the colours."""
    largest = float(maps.max(initial=0))
    scale = (
        "0 to the number in each panel"
        if settings.scale == "word"
        else f"0 to {largest:.2g}, one scale for all words"
    )
    notes = [spaced(words.title)] * bool(words.title) + [f"colour: attention weight, {scale}"]
    return "; ".join(filter(None, [*notes, uniformity_note(maps.reshape(len(maps), -1), "cell")]))


def _foot(figure: Figure, notes: str, page: tuple[float, float]) -> None:
    """Draw the colour scale, on grey, and the notes below the panels."""
    bar = figure.add_axes((0, 0.05 / page[1], BAR[0] / page[0], BAR[1] / page[1]))
    grey = np.full((1, len(FILM), 3), 128, np.uint8)
    bar.imshow(under_film(grey, np.linspace(0, 1, len(FILM))[None]), aspect="auto")
    bar.set(xticks=[], yticks=[])
    for spine in bar.spines.values():
        spine.set(linewidth=0.5, color=FRAME)
    figure.text((BAR[0] + 0.08) / page[0], (0.05 + BAR[1] / 2) / page[1], notes, size=SMALL,
                color=QUIET, ha="left", va="center", parse_math=False)  # fmt: skip


def _panel_size(height: int, width: int) -> tuple[float, float]:
    """Return the width and height of a panel in inches, in the proportions of the image."""
    longer = math.sqrt(max(width / height, height / width))
    side = SIDE * min(1.0, 2 / longer)
    return side * math.sqrt(width / height), side * math.sqrt(height / width)


def grids(words: LabelledMap) -> Float[np.ndarray, "target row column"]:
    """Return the weights of each word as a square grid of cells, averaged over layers and heads.
    ValueError if the number of cells is not a square, or if weights are not finite."""
    weights = words.weights.mean(axis=(0, 1))
    if not np.isfinite(weights).all():
        raise ValueError("the attention weights must be finite, got NaN or infinity")
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
