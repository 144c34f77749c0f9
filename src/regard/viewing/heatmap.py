"""Attention as a picture: the source across the top, the target down the side.

               she  kissed  him               she kissed him  she kissed him
         sie   [ ]                       sie  [ ]             [ ]
      küsste         [ ]             küsste       [ ]             [ ]
         ihn                [ ]         ihn            [ ]            [ ]

Every head has its own panel, layers below each other and heads beside each other, all on one scale
from 0 to 1. A cell's size is given in inches, so a figure grows with its map and labels keep apart.
"""

from __future__ import annotations

import math
import warnings
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
    QUIET,
    check_suffix,
    empty_figure,
    missing_glyphs_said_already,
    widths,
    write,
)
from regard.viewing.fonts import Choice, Fonts, MachineFonts, MissingFontWarning, advice, choose
from regard.viewing.labels import LabelledMap, labelled, short, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERED = 12
"""A map with more rows or columns has no numbers in its cells."""
LEAST_NUMBERED = 0.005
"""A weight that would round to 0.00 has no number."""
SLANT = 52
"""Degrees: flat enough to read, steep enough to keep the labels of narrow columns apart."""

# Inches.
GAP = 0.2
NAME = 0.26
PAD = 0.07
BAR_WIDTH, BAR_LENGTH, BAR_NUMBERS = 0.11, 2.4, 0.5


@dataclass(frozen=True)
class _Layout:
    """Inches; type in points. `top` and `left` is the room for labels, names and the title."""

    cell: float
    type_size: float
    slanted: bool
    left: float
    top: float
    right: float
    panel: tuple[float, float]
    """Width and height."""


def save(what: Trace | LabelledMap, path: str | Path, *, fonts: Fonts | None = None) -> None:
    """Draw to a .png, .svg or .pdf file. Of a trace the target's look at the source is drawn;
    `LabelledMap.of_trace` gives its other maps. Warns with MissingFontWarning."""
    check_suffix(path)
    write(draw(what, fonts=fonts), path)


def draw(what: Trace | LabelledMap, *, fonts: Fonts | None = None) -> Figure:
    """Draw to a figure; nothing is shown and no state of matplotlib changes.

    Characters that no font has are drawn as boxes, and a MissingFontWarning says what to
    install."""
    picture = labelled(what)
    fonts = fonts or MachineFonts()
    across, down = (
        choose([short(label) for label in labels], fonts, language)
        for labels, language in zip((picture.across, picture.down), picture.languages, strict=True)
    )
    words = " ".join(map(visible, picture.title.split()))  # its blanks are to be blank
    title = choose([words] if words else [], fonts)
    for line in advice([*across, *down, *title]):
        warnings.warn(line, MissingFontWarning, stacklevel=2)
    with missing_glyphs_said_already():
        return _figure(picture, across, down, title)


def _figure(
    picture: LabelledMap, across: list[Choice], down: list[Choice], title: list[Choice]
) -> Figure:
    layout = _lay_out(picture, across, down)
    num_layers, num_heads = picture.weights.shape[:2]
    width, height = layout.panel
    page = (
        layout.left + num_heads * width + (num_heads - 1) * GAP + layout.right,
        layout.top + num_layers * height + (num_layers - 1) * GAP,
    )
    figure = empty_figure(*page)

    def place(x: float, y: float, width: float, height: float) -> Axes:
        """Axes at inches from the upper left corner."""
        bounds = x / page[0], 1 - (y + height) / page[1], width / page[0], height / page[1]
        return figure.add_axes(bounds)

    numbered = num_layers == num_heads == 1 and max(picture.weights.shape) <= MOST_NUMBERED
    for layer, head in np.ndindex(num_layers, num_heads):
        axes = place(
            layout.left + head * (width + GAP), layout.top + layer * (height + GAP), width, height
        )
        mesh = _panel(axes, picture.weights[layer, head], layout, numbered=numbered)
        if layer == 0:
            _label_across(axes, across, layout)
            if num_heads > 1:
                _name(axes, f"head {head + 1}", (0.5, 1 + (layout.top - NAME) / height), layout)
        if head == 0:
            _label_down(axes, down, layout)
            if num_layers > 1:
                _name(axes, f"layer {layer + 1}", (-(layout.left - NAME / 2) / width, 0.5), layout)
    bar = place(
        page[0] - layout.right + GAP, layout.top, BAR_WIDTH, min(BAR_LENGTH, page[1] - layout.top)
    )
    _colour_bar(bar, mesh, picture.weights, layout)
    for each in title:
        figure.text(0, 1, each.label, family=list(each.families), parse_math=False,
                    size=layout.type_size + 1, color=INK, va="bottom", ha="left")  # fmt: skip
    return figure


def _lay_out(picture: LabelledMap, across: list[Choice], down: list[Choice]) -> _Layout:
    num_layers, num_heads, num_down, num_across = picture.weights.shape
    alone = num_layers == num_heads == 1
    room, least, most = (7.0, 0.2, 0.48) if alone else (11.0, 0.15, 0.3)
    cell = min(max(room / max(num_layers * num_down, num_heads * num_across), least), most)
    type_size = min(max(cell * 72 * 0.58, 6.0), 10.5)
    widest_across, widest_down = (max(widths(each, type_size)) for each in (across, down))
    slanted = widest_across > 0.9 * cell
    line = type_size * 1.3 / 72
    rise, run = (math.sin(math.radians(SLANT)), math.cos(math.radians(SLANT)))
    height = widest_across * rise + line * run if slanted else line
    overhang = widest_across * run if slanted else 0.0
    return _Layout(
        cell=cell,
        type_size=type_size,
        slanted=slanted,
        left=widest_down + 2 * PAD + NAME * (num_layers > 1),
        top=height + 1.5 * PAD + NAME * (num_heads > 1),
        right=max(GAP + BAR_WIDTH + BAR_NUMBERS, overhang),
        panel=(num_across * cell, num_down * cell),
    )


def _panel(
    axes: Axes, weights: Float[np.ndarray, "target source"], layout: _Layout, *, numbered: bool
) -> Any:
    """Cells of vectors, not pixels: viewers of PDF and SVG would blur those."""
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
            if weight >= LEAST_NUMBERED:
                axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", color=ink(float(weight)),
                          size=layout.type_size - 2.5, ha="center", va="center")  # fmt: skip
    return mesh


def _label_across(axes: Axes, choices: list[Choice], layout: _Layout) -> None:
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(choices)) + 0.5, [each.label for each in choices])
    if layout.slanted:
        _dress(axes.get_xticklabels(), choices, layout, rotation=SLANT, ha="left", va="baseline",
               rotation_mode="anchor")  # fmt: skip
        for text, choice in zip(axes.get_xticklabels(), choices, strict=True):
            if len(choice.label) == 1:  # it has room, and a slanted sign may look like another
                text.set(rotation=0, ha="center")
    else:
        _dress(axes.get_xticklabels(), choices, layout)
    axes.tick_params(axis="x", length=0, pad=72 * PAD * 0.7)


def _label_down(axes: Axes, choices: list[Choice], layout: _Layout) -> None:
    axes.set_yticks(np.arange(len(choices)) + 0.5, [each.label for each in choices])
    _dress(axes.get_yticklabels(), choices, layout)
    axes.tick_params(axis="y", length=0, pad=72 * PAD * 0.8)


def _dress(texts: list[Any], choices: list[Choice], layout: _Layout, **how: Any) -> None:
    for text, choice in zip(texts, choices, strict=True):
        text.set(fontfamily=list(choice.families), fontsize=layout.type_size, color=INK, **how)
        text.set_parse_math(False)  # a piece may be a dollar sign


def _name(axes: Axes, name: str, at: tuple[float, float], layout: _Layout) -> None:
    """Name a row (at its left, upwards) or a column (above it) of panels."""
    is_row = at[0] < 0
    axes.text(*at, name, transform=axes.transAxes, size=layout.type_size, color=QUIET,
              ha="center", va="center" if is_row else "bottom",
              rotation=90 if is_row else 0)  # fmt: skip


def _colour_bar(axes: Axes, mesh: Any, weights: np.ndarray, layout: _Layout) -> None:
    """An arrow says that there are weights above 1 (unnormalised ones)."""
    above = "max" if weights.max() > 1 + 1e-4 else "neither"
    bar = axes.figure.colorbar(mesh, cax=axes, ticks=[0, 0.5, 1], extend=above, format="{x:g}")
    bar.outline.set(linewidth=0.7, edgecolor=FRAME)
    bar.ax.tick_params(length=2, width=0.6, color=FRAME, labelcolor=QUIET,
                       labelsize=layout.type_size - 1.5)  # fmt: skip
    bar.set_label("weight", size=layout.type_size - 1, color=QUIET)
