"""Attention as a heatmap: source positions are columns, target positions are rows.

               she  kissed  him               she kissed him  she kissed him
         sie   [ ]                       sie  [ ]             [ ]
      küsste         [ ]             küsste       [ ]             [ ]
         ihn                [ ]         ihn            [ ]            [ ]

Each head has a panel. Layers are rows of panels, heads are columns, and all share one scale from 0
to 1. Layers of one head are columns if the map is taller than wide. Gradients, whose shares are
small, have a scale up to the largest share. The size of a cell is fixed in inches, so a figure
grows with its map and labels do not overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.trace import Trace
from regard.viewing.colours import SCALE, ZERO, ink
from regard.viewing.figure import (
    FRAME,
    GRID,
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
from regard.viewing.labels import WEIGHT, LabelledMap, labelled, short, spaced, uniformity_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NUMBERED = 12
"""Largest number of rows or columns with numbers in the cells."""
MIN_PRINTED_WEIGHT = 0.005
"""Smallest weight that is printed in its cell; smaller weights would round to 0.00."""
SLANT = 52
"""Angle of column labels in degrees: flat enough to read, steep enough to separate narrow
columns."""

# Inches.
GAP = 0.2
NAME = 0.26
PAD = 0.07
BAR_WIDTH, BAR_LENGTH, BAR_NUMBERS = 0.11, 2.4, 0.5


@dataclass(frozen=True)
class _Layout:
    """Lengths in inches, `type_size` in points. `top` and `left` are the room for labels, names and
    the title."""

    cell: float
    type_size: float
    slanted: bool
    left: float
    top: float
    right: float
    panel: tuple[float, float]
    """Width and height of a panel."""


def save(
    attention: Trace | LabelledMap,
    path: str | Path,
    *,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. The cross-attention of a trace is drawn;
    `LabelledMap.of_trace` returns its other maps. Warns with MissingFontWarning. UserError for any
    other suffix."""
    check_suffix(path)
    write(draw(attention, style=style, fonts=fonts), path, style.dots)


def draw(
    attention: Trace | LabelledMap, *, style: Style = PLAIN, fonts: Fonts | None = None
) -> Figure:
    """Draw to a figure. Nothing is shown and no state of matplotlib changes. The title of the style
    replaces the title of the map.

    Characters that no font has are drawn as boxes, and a MissingFontWarning names the font to
    install."""
    labelled_map = labelled(attention)
    title = labelled_map.title if style.title is None else style.title
    names = [spaced(name) for name in (title, style.source_name or "", style.target_name or "")]
    column_choices, row_choices, name_choices = choose_fonts(
        (list(map(short, labelled_map.column_labels)), labelled_map.languages[0]),
        (list(map(short, labelled_map.row_labels)), labelled_map.languages[1]),
        (list(filter(None, names)), None),
        fonts=fonts,
    )
    with without_glyph_warnings():
        drawn = iter(name_choices)
        texts = _Names(*(next(drawn) if name else None for name in names))
        figure = _figure(labelled_map, column_choices, row_choices, texts)
        scale_to(figure, style.width)
        return figure


@dataclass(frozen=True)
class _Names:
    """Title of a figure, and the names of its columns and rows."""

    title: Choice | None
    source: Choice | None
    target: Choice | None


@dataclass(frozen=True)
class _Grid:
    """Weights of the panels, with the names of the rows and of the columns of panels. A single row
    or column has no name."""

    weights: Float[np.ndarray, "panel_row panel_column target source"]
    row_names: list[str]
    column_names: list[str]

    @classmethod
    def of(cls, weights: Float[np.ndarray, "layer head target source"]) -> _Grid:
        """Return layers as rows and heads as columns, but the layers of one head as columns if they
        are taller than wide."""
        layers, heads = (
            [f"{name} {n + 1}" for n in range(number)] if number > 1 else []
            for name, number in zip(("layer", "head"), weights.shape[:2], strict=True)
        )
        if not heads and weights.shape[2] > weights.shape[3]:
            return cls(weights.swapaxes(0, 1), heads, layers)
        return cls(weights, layers, heads)


def _figure(
    labelled_map: LabelledMap, columns: list[Choice], rows: list[Choice], names: _Names
) -> Figure:
    weights, scale = labelled_map.weights, labelled_map.scale
    if labelled_map.is_scaled:
        weights = np.ma.masked_equal(weights, 0)
    grid = _Grid.of(weights)
    layout = _lay_out(grid, columns, rows)
    num_rows, num_columns = grid.weights.shape[:2]
    width, height = layout.panel
    page = (
        layout.left + num_columns * width + (num_columns - 1) * GAP + layout.right,
        layout.top + num_rows * height + (num_rows - 1) * GAP,
    )
    figure = empty_figure(*page)

    def place(x: float, y: float, width: float, height: float) -> Axes:
        """Add axes at this position in inches from the upper left corner."""
        bounds = x / page[0], 1 - (y + height) / page[1], width / page[0], height / page[1]
        return figure.add_axes(bounds)

    numbered = num_rows == num_columns == 1 and max(grid.weights.shape) <= MAX_NUMBERED
    for row, column in np.ndindex(num_rows, num_columns):
        axes = place(
            layout.left + column * (width + GAP), layout.top + row * (height + GAP), width, height
        )
        mesh = _panel(axes, grid.weights[row, column], layout, scale, numbered=numbered)
        if row == 0:
            _label_columns(axes, columns, layout)
            if grid.column_names:
                at = 0.5, 1 + (layout.top - NAME) / height
                _name(axes, grid.column_names[column], at, layout)
        if column == 0:
            _label_rows(axes, rows, layout)
            if grid.row_names:
                at = -(layout.left - NAME / 2) / width, 0.5
                _name(axes, grid.row_names[row], at, layout)
    bar = place(
        page[0] - layout.right + GAP, layout.top, BAR_WIDTH, min(BAR_LENGTH, page[1] - layout.top)
    )
    _colour_bar(bar, mesh, labelled_map, layout)
    line = layout.type_size * 1.5 / 72

    def write_name(choice: Choice | None, x: float, y: float, **style: Any) -> None:
        """Write a name at this position in inches from the lower left corner."""
        if choice is not None:
            figure.text(x / page[0], y / page[1], choice.label, parse_math=False,
                        family=list(choice.families), **style)  # fmt: skip

    middle = layout.left + (page[0] - layout.left - layout.right) / 2
    quiet = {"size": layout.type_size, "color": QUIET, "ha": "center"}
    write_name(names.source, middle, page[1], va="bottom", **quiet)
    write_name(names.target, -line / 2, (page[1] - layout.top) / 2, va="center", rotation=90,
               **quiet)  # fmt: skip
    above = page[1] + (line if names.source else 0.0)
    write_name(
        names.title, 0.0, above, size=layout.type_size + 1, color=INK, va="bottom", ha="left"
    )
    if notes := _notes(labelled_map):
        figure.text(layout.left / page[0], -PAD / page[1], notes, va="top", ha="left",
                    size=layout.type_size - 1, color=QUIET)  # fmt: skip
    return figure


def _notes(labelled_map: LabelledMap) -> str:
    """Return the explanation of the labels and of the colours."""
    notes = [labelled_map.note]
    if labelled_map.is_scaled and not labelled_map.weights.all():
        notes.append("grey: exactly 0")
    if labelled_map.quantity == WEIGHT:
        notes.append(uniformity_note(labelled_map.weights, "column"))
    return "; ".join(filter(None, notes))


def _lay_out(grid: _Grid, columns: list[Choice], rows: list[Choice]) -> _Layout:
    panel_rows, panel_columns, num_rows, num_columns = grid.weights.shape
    alone = panel_rows == panel_columns == 1
    extent, minimum, maximum = (7.0, 0.2, 0.48) if alone else (11.0, 0.15, 0.3)
    longest = max(panel_rows * num_rows, panel_columns * num_columns)
    cell = min(max(extent / longest, minimum), maximum)
    type_size = min(max(cell * 72 * 0.58, 6.0), 10.5)
    widest_column, widest_row = (max(widths(choices, type_size)) for choices in (columns, rows))
    slanted = widest_column > 0.9 * cell
    line = type_size * 1.3 / 72
    rise, run = (math.sin(math.radians(SLANT)), math.cos(math.radians(SLANT)))
    height = widest_column * rise + line * run if slanted else line
    overhang = widest_column * run if slanted else 0.0
    return _Layout(
        cell=cell,
        type_size=type_size,
        slanted=slanted,
        left=widest_row + 2 * PAD + NAME * bool(grid.row_names),
        top=height + 1.5 * PAD + NAME * bool(grid.column_names),
        right=max(GAP + BAR_WIDTH + BAR_NUMBERS, overhang),
        panel=(num_columns * cell, num_rows * cell),
    )


def _panel(
    axes: Axes,
    weights: Float[np.ndarray, "target source"],
    layout: _Layout,
    scale: float,
    *,
    numbered: bool,
) -> Any:
    """Draw the cells as vector shapes, because viewers of PDF and SVG blur pixels. `scale` is the
    weight of the darkest colour. Masked weights have the colour of exact zeros."""
    from matplotlib.colors import ListedColormap

    mesh = axes.pcolormesh(
        weights,
        cmap=ListedColormap(SCALE).with_extremes(bad=ZERO),
        vmin=0,
        vmax=scale,
        edgecolors=GRID,
        linewidth=layout.cell,
        antialiased=True,
    )
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(linewidth=0.7, color=FRAME)
    if numbered:
        for (row, column), weight in np.ndenumerate(weights):
            if weight >= MIN_PRINTED_WEIGHT:
                colour = ink(float(weight) / scale)
                axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", color=colour,
                          size=layout.type_size - 2.5, ha="center", va="center")  # fmt: skip
    return mesh


def _label_columns(axes: Axes, choices: list[Choice], layout: _Layout) -> None:
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(choices)) + 0.5, [choice.label for choice in choices])
    if layout.slanted:
        _dress(axes.get_xticklabels(), choices, layout, rotation=SLANT, ha="left", va="baseline",
               rotation_mode="anchor")  # fmt: skip
        for text, choice in zip(axes.get_xticklabels(), choices, strict=True):
            if len(choice.label) == 1:  # it has room, and a slanted sign may resemble another sign
                text.set(rotation=0, ha="center")
    else:
        _dress(axes.get_xticklabels(), choices, layout)
    axes.tick_params(axis="x", length=0, pad=72 * PAD * 0.7)


def _label_rows(axes: Axes, choices: list[Choice], layout: _Layout) -> None:
    axes.set_yticks(np.arange(len(choices)) + 0.5, [choice.label for choice in choices])
    _dress(axes.get_yticklabels(), choices, layout)
    axes.tick_params(axis="y", length=0, pad=72 * PAD * 0.8)


def _dress(texts: list[Any], choices: list[Choice], layout: _Layout, **style: Any) -> None:
    for text, choice in zip(texts, choices, strict=True):
        text.set(fontfamily=list(choice.families), fontsize=layout.type_size, color=INK, **style)
        text.set_parse_math(False)  # a piece may be a dollar sign


def _name(axes: Axes, name: str, at: tuple[float, float], layout: _Layout) -> None:
    """Write the name of a row of panels (at its left, upwards) or of a column (above it)."""
    is_row = at[0] < 0
    axes.text(*at, name, transform=axes.transAxes, size=layout.type_size, color=QUIET,
              ha="center", va="center" if is_row else "bottom",
              rotation=90 if is_row else 0)  # fmt: skip


def _colour_bar(axes: Axes, mesh: Any, labelled_map: LabelledMap, layout: _Layout) -> None:
    """Draw the colour bar."""
    largest = mesh.norm.vmax
    ticks = [0, largest / 2, largest]
    bar = axes.figure.colorbar(mesh, cax=axes, ticks=ticks, format="{x:.2g}")
    bar.outline.set(linewidth=0.7, edgecolor=FRAME)
    bar.ax.tick_params(length=2, width=0.6, color=FRAME, labelcolor=QUIET,
                       labelsize=layout.type_size - 1.5)  # fmt: skip
    name = f"{labelled_map.quantity}{', up to the largest' * (labelled_map.scale != 1)}"
    bar.set_label(name, size=layout.type_size - 1, color=QUIET)
