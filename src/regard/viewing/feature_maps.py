"""Feature maps: outputs of the layers of an encoder, and the filters of its first convolution.

    text     channel                              image    filters   [ ] [ ] [ ] [ ]
             1   |[][]  [][]                               block 1   [ ] [ ] [ ] [ ]
             64  |  [][]  []                               block 2   [] [] [] []
                  she sings .   position

Blue is positive, brown is negative, white is 0. Each layer has a scale of its own, because the
sizes of the numbers of two layers are unrelated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from regard.errors import UserError
from regard.viewing.colours import DIVERGING, SCALE
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
from regard.viewing.labels import short, spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_TILES = 64
"""Largest number of channels of an image's layer that a figure of several layers shows."""

# Inches, and points for type.
PAGE = 9.4
"""Width of the panels of a row, at most."""
POSITIONS = 0.16, 0.29
"""Smallest and largest width of a position of a text."""
CHANNEL, HEIGHTS = 0.05, (1.2, 3.2)
"""Height of a channel of a text, and the smallest and largest height of a panel."""
TILES, TILE, SPACE = 16, 0.47, 0.09
"""Number of channels of an image in a row, the side of one, and the space between two."""
STEP, LINE = TILE + SPACE, TILE + SPACE + 0.06
IMAGE_TILES = 4
"""Number of columns that the image and the space beside it take. It has one row less."""
TITLE, GAP, AXIS = 0.38, 0.2, 0.55
BAR, BAR_GAP, BAR_NUMBERS = 0.09, 0.08, 0.5
SMALLEST = 1e-9
"""Smallest half of a scale: all numbers of a layer may be 0."""
TYPE, SMALL, TINY = 9.5, 8.0, 5.5

Colours = UInt8[np.ndarray, "channel height width"]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Output of a layer, with its name: one number for each channel at each position of a text, or
    at each row and column of an image."""

    name: str
    values: Float[np.ndarray, "channel *position"]


@dataclass(frozen=True, eq=False)
class FeatureMaps:
    """Outputs of all layers of an encoder for one source, the embeddings of a text first. `labels`
    are the pieces of a text, in the language of the code. `filters` are those of the first
    convolution of an image."""

    layers: tuple[FeatureMap, ...]
    labels: tuple[str, ...] = ()
    language: str | None = None
    filters: Float[np.ndarray, "channel 3 row column"] | None = None

    @property
    def is_image(self) -> bool:
        """Whether the source is an image."""
        return self.layers[0].values.ndim > 2

    def layer(self, number: int) -> FeatureMaps:
        """Return the maps of one layer, numbered from 1; the embeddings have no number. The filters
        belong to the first layer. UserError for a number out of range."""
        layers = self.layers if self.is_image else self.layers[1:]
        if not 1 <= number <= len(layers):
            numbers = (
                f"expected 1 to {len(layers)}" if layers else "the encoder has embeddings only"
            )
            raise UserError(f"there is no layer {number}: {numbers}")
        filters = self.filters if number == 1 else None
        return replace(self, layers=(layers[number - 1],), filters=filters)


def save(
    maps: FeatureMaps,
    path: str | Path,
    *,
    image: Colours | None = None,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning. UserError for any other
    suffix."""
    check_suffix(path)
    write(draw(maps, image=image, style=style, fonts=fonts), path, style.dots)


def draw(
    maps: FeatureMaps,
    *,
    image: Colours | None = None,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> Figure:
    """Draw to a figure. `image` is drawn beside the filters. The source name of the style is the
    name of the positions of a text, or of the image; the target name is ignored."""
    labels, names = choose_fonts(
        (list(map(short, maps.labels)), maps.language),
        ([spaced(style.title or "feature maps"), spaced(style.source_name or "")], None),
        fonts=fonts,
    )
    title, source_name = names
    with without_glyph_warnings():
        if maps.is_image:
            figure = _draw_image(maps, image, source_name.label)
        else:
            figure = _draw_text(maps.layers, labels, source_name.label)
        figure.text(0, 1, title.label, family=list(title.families), size=TYPE + 1.5, color=INK,
                    va="bottom", ha="left", parse_math=False)  # fmt: skip
        scale_to(figure, style.width)
        return figure


@dataclass(frozen=True)
class _Page:
    """Figure and its size in inches."""

    figure: Figure
    width: float
    height: float

    @classmethod
    def of(cls, width: float, height: float) -> _Page:
        return cls(empty_figure(width, height), width, height)

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add axes without ticks at this position in inches from the upper left corner."""
        bottom = 1 - (top + height) / self.height
        bounds = left / self.width, bottom, width / self.width, height / self.height
        axes = self.figure.add_axes(bounds)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(linewidth=0.6, color=FRAME)
        return axes

    def draw_tiles(
        self,
        tiles: Sequence[np.ndarray],
        corner: tuple[float, float],
        num_columns: int,
        draw: Callable[[Axes, np.ndarray], Any],
    ) -> tuple[Axes, Any]:
        """Draw numbered panels in rows, from this corner. Return the first axes, and what `draw`
        returned last."""
        left, top = corner
        first, result = None, None
        for number, tile in enumerate(tiles):
            row, column = divmod(number, num_columns)
            axes = self.place(left + column * STEP, top + row * LINE, TILE, TILE)
            axes.text(0, 1.03, str(number + 1), transform=axes.transAxes, size=TINY, color=QUIET,
                      ha="left", va="bottom")  # fmt: skip
            result = draw(axes, tile)
            first = first or axes
        if first is None:
            raise ValueError("tiles: expected one panel or more")
        return first, result

    def draw_colour_bar(self, mesh: Any, left: float, top: float, height: float) -> None:
        """Draw the colour bar of one layer."""
        axes = self.place(left, top, BAR, height)
        ticks = sorted({mesh.norm.vmin, 0, mesh.norm.vmax})
        bar = self.figure.colorbar(mesh, cax=axes, ticks=ticks, format="{x:.2g}")
        bar.outline.set(linewidth=0.6, edgecolor=FRAME)
        axes.tick_params(length=2, width=0.6, color=FRAME, labelcolor=QUIET, labelsize=SMALL - 1)
        bar.set_label("output", size=SMALL, color=QUIET, labelpad=0)


def _draw_text(layers: Sequence[FeatureMap], labels: list[Choice], source_name: str) -> Figure:
    """Draw a panel for each layer, in rows: channels are rows and positions are columns."""
    num_positions = len(labels)
    width = num_positions * min(max(0.4 * PAGE / num_positions, POSITIONS[0]), POSITIONS[1])
    most = max(len(layer.values) for layer in layers)
    height = min(max(most * CHANNEL, HEIGHTS[0]), HEIGHTS[1])
    foot = max(widths(labels, SMALL)) + 0.1 + 0.2 * bool(source_name)
    column, row = AXIS + width + BAR_GAP + BAR + BAR_NUMBERS + GAP, TITLE + height + foot + GAP
    num_columns = min(max(int((PAGE + GAP) / column), 1), len(layers))
    num_rows = math.ceil(len(layers) / num_columns)
    num_columns = math.ceil(len(layers) / num_rows)
    page = _Page.of(num_columns * column - GAP, num_rows * row - GAP)
    for number, layer in enumerate(layers):
        left = number % num_columns * column + AXIS
        top = number // num_columns * row + TITLE
        axes = page.place(left, top, width, height)
        mesh = _draw_cells(axes, layer.values, _limits(layer))
        title = f"{layer.name}: {len(layer.values)} channels"
        axes.set_title(title, size=TYPE, color=INK, loc="left", pad=4)
        numbers = _channel_numbers(len(layer.values))
        axes.set_yticks([number - 1 for number in numbers], [*map(str, numbers)])
        axes.set_ylabel("channel", size=SMALL, color=QUIET, labelpad=2)
        axes.set_xticks(range(num_positions), [choice.label for choice in labels])
        axes.set_xlabel(source_name, size=SMALL, color=QUIET, parse_math=False)
        axes.tick_params(length=2, width=0.6, color=FRAME, labelsize=SMALL, pad=2)
        axes.tick_params(axis="y", labelcolor=QUIET, labelsize=SMALL - 1)
        for text, choice in zip(axes.get_xticklabels(), labels, strict=True):
            rotation = 90 if len(choice.label) > 1 else 0
            text.set(fontfamily=list(choice.families), rotation=rotation, color=INK)
            text.set_parse_math(False)  # a piece may be a dollar sign
        page.draw_colour_bar(mesh, left + width + BAR_GAP, top, height)
    return page.figure


def _draw_image(maps: FeatureMaps, image: Colours | None, source_name: str) -> Figure:
    """Draw the image and the filters in the first rows, then the channels of every layer."""
    most = MAX_TILES if len(maps.layers) > 1 else max(len(layer.values) for layer in maps.layers)
    heights = [math.ceil(min(len(layer.values), most) / TILES) * LINE for layer in maps.layers]
    filters = () if maps.filters is None else maps.filters
    num_beside = TILES - IMAGE_TILES * (image is not None)
    num_rows = max(math.ceil(len(filters) / num_beside), (IMAGE_TILES - 1) * (image is not None))
    right = TILES * STEP + BAR_GAP
    height = sum(TITLE + part for part in (num_rows * LINE, *heights) if part)
    page = _Page.of(right + BAR + BAR_NUMBERS, height)
    top = TITLE
    if image is not None:
        side = (IMAGE_TILES - 1) * STEP - SPACE
        axes = page.place(0.0, top, side, side)
        axes.imshow(image.transpose(1, 2, 0))
        axes.set_title(source_name or "image", size=TYPE, color=INK, loc="left", pad=11,
                       parse_math=False)  # fmt: skip
    if maps.filters is not None:
        corner = (TILES - num_beside) * STEP, top
        first, _ = page.draw_tiles(
            list(_as_colours(maps.filters)),
            corner,
            num_beside,
            lambda axes, tile: axes.imshow(tile, interpolation="nearest"),
        )
        size = _size(maps.filters.shape[2:])
        title = f"filters of the first convolution: {size} pixels, red, green and blue; grey is 0"
        first.set_title(title, size=TYPE, color=INK, loc="left", pad=11)
    top += (num_rows * LINE + TITLE) * bool(num_rows)
    for layer, height in zip(maps.layers, heights, strict=True):
        tiles = layer.values[:most]
        draw_tile = partial(_draw_cells, limits=_limits(layer))
        first, mesh = page.draw_tiles(list(tiles), (0.0, top), TILES, draw_tile)
        shown = f" (1 to {most} are drawn)" * (len(tiles) < len(layer.values))
        size = _size(layer.values.shape[1:])
        title = f"{layer.name}: {len(layer.values)} channels of {size} positions{shown}"
        first.set_title(title, size=TYPE, color=INK, loc="left", pad=11)
        page.draw_colour_bar(mesh, right, top, min(height, 2 * LINE) - SPACE)
        top += height + TITLE
    return page.figure


def _as_colours(
    filters: Float[np.ndarray, "channel 3 row column"],
) -> Float[np.ndarray, "channel row column 3"]:
    """Return filters as images whose grey is 0, with one scale for all filters."""
    return 0.5 + 0.5 * filters.transpose(0, 2, 3, 1) / max(float(np.abs(filters).max()), SMALLEST)


def _limits(layer: FeatureMap) -> tuple[float, float]:
    """Return the smallest and the largest number of the scale of a layer: without negative numbers,
    as after ReLU, the smallest is 0."""
    largest = max(float(np.abs(layer.values).max()), SMALLEST)
    return (-largest if layer.values.min() < 0 else 0.0), largest


def _draw_cells(
    axes: Axes, values: Float[np.ndarray, "row column"], limits: tuple[float, float]
) -> Any:
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(DIVERGING if limits[0] < 0 else SCALE)
    return axes.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto",
                       interpolation="nearest")  # fmt: skip


def _size(sides: tuple[int, ...]) -> str:
    return " x ".join(map(str, sides))


def _channel_numbers(num_channels: int) -> list[int]:
    """Return the numbers of the first and the last channel, and of some between."""
    step = 2 ** max(math.ceil(math.log2(num_channels / 5)), 0)
    return sorted({1, *range(step, num_channels - step // 2, step), num_channels})
