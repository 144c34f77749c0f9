"""Attention as a heatmap: source positions are columns, target positions are rows.

               she  kissed  him               she kissed him  she kissed him
         sie   [ ]                       sie  [ ]             [ ]
      küsste         [ ]             küsste       [ ]             [ ]
         ihn                [ ]         ihn            [ ]            [ ]

Each head has a panel. Layers are rows of panels, heads are columns, and all share one scale from 0
to 1. The size of a cell is fixed in inches, so a figure grows with its map and labels do not
overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.trace import Trace
from regard.viewing.colours import SCALE, ink
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
from regard.viewing.labels import LabelledMap, labelled, short, spaced

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


def _figure(
    labelled_map: LabelledMap, columns: list[Choice], rows: list[Choice], names: _Names
) -> Figure:
    layout = _lay_out(labelled_map, columns, rows)
    num_layers, num_heads = labelled_map.weights.shape[:2]
    width, height = layout.panel
    page = (
        layout.left + num_heads * width + (num_heads - 1) * GAP + layout.right,
        layout.top + num_layers * height + (num_layers - 1) * GAP,
    )
    figure = empty_figure(*page)

    def place(x: float, y: float, width: float, height: float) -> Axes:
        """Add axes at this position in inches from the upper left corner."""
        bounds = x / page[0], 1 - (y + height) / page[1], width / page[0], height / page[1]
        return figure.add_axes(bounds)

    numbered = num_layers == num_heads == 1 and max(labelled_map.weights.shape) <= MAX_NUMBERED
    for layer, head in np.ndindex(num_layers, num_heads):
        axes = place(
            layout.left + head * (width + GAP), layout.top + layer * (height + GAP), width, height
        )
        mesh = _panel(axes, labelled_map.weights[layer, head], layout, numbered=numbered)
        if layer == 0:
            _label_columns(axes, columns, layout)
            if num_heads > 1:
                _name(axes, f"head {head + 1}", (0.5, 1 + (layout.top - NAME) / height), layout)
        if head == 0:
            _label_rows(axes, rows, layout)
            if num_layers > 1:
                _name(axes, f"layer {layer + 1}", (-(layout.left - NAME / 2) / width, 0.5), layout)
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
    if labelled_map.note:
        figure.text(layout.left / page[0], -PAD / page[1], labelled_map.note, va="top", ha="left",
                    size=layout.type_size - 1, color=QUIET)  # fmt: skip
    return figure


def _lay_out(labelled_map: LabelledMap, columns: list[Choice], rows: list[Choice]) -> _Layout:
    num_layers, num_heads, num_rows, num_columns = labelled_map.weights.shape
    alone = num_layers == num_heads == 1
    extent, minimum, maximum = (7.0, 0.2, 0.48) if alone else (11.0, 0.15, 0.3)
    cell = min(max(extent / max(num_layers * num_rows, num_heads * num_columns), minimum), maximum)
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
        left=widest_row + 2 * PAD + NAME * (num_layers > 1),
        top=height + 1.5 * PAD + NAME * (num_heads > 1),
        right=max(GAP + BAR_WIDTH + BAR_NUMBERS, overhang),
        panel=(num_columns * cell, num_rows * cell),
    )


def _panel(
    axes: Axes, weights: Float[np.ndarray, "target source"], layout: _Layout, *, numbered: bool
) -> Any:
    """Draw the cells as vector shapes, because viewers of PDF and SVG blur pixels."""
    from matplotlib.colors import ListedColormap

    mesh = axes.pcolormesh(
        weights,
        cmap=ListedColormap(SCALE),
        vmin=0,
        vmax=1,
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
                axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", color=ink(float(weight)),
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
    """Draw the colour bar; its arrow marks weights above 1, which are not normalised."""
    above = "max" if labelled_map.weights.max() > 1 + 1e-4 else "neither"
    bar = axes.figure.colorbar(mesh, cax=axes, ticks=[0, 0.5, 1], extend=above, format="{x:g}")
    bar.outline.set(linewidth=0.7, edgecolor=FRAME)
    bar.ax.tick_params(length=2, width=0.6, color=FRAME, labelcolor=QUIET,
                       labelsize=layout.type_size - 1.5)  # fmt: skip
    bar.set_label(labelled_map.quantity, size=layout.type_size - 1, color=QUIET)
