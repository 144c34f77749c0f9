"""Sentence whose pieces are shaded by the attention weights of one output token.

    What [county] is [Modesto] , California [in] ?   ->   location

The output token is a label, a number, or one word of a text. Long sentences are wrapped. All
figures share one scale, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.trace import Trace
from regard.viewing.colours import SCALE, hexadecimal, ink
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
from regard.viewing.labels import NOTE, spaced, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.text import Text

MIN_PRINTED_WEIGHT = 0.05
"""Smallest weight that is printed in a terminal without colours."""

# Inches, and points for type.
WIDTH = 7.0
LINE = 0.4
BETWEEN = 0.05
INSIDE = 0.06
BOX = 0.27
TYPE, SMALL = 11.0, 8.0


@dataclass(frozen=True)
class ShadedSentence:
    """Source pieces with their attention weights, and the output token that attends to them."""

    pieces: tuple[str, ...]
    weights: Float[np.ndarray, "source"]
    output: str
    language: str | None = None
    note: str = ""
    """Explanation of marks in the pieces."""

    @classmethod
    def of(cls, trace: Trace, position: int = 0) -> ShadedSentence:
        """Return the cross-attention of a target position, averaged over layers, heads, and the
        models of an ensemble. ValueError if the trace has no cross-attention or no such
        position."""
        maps = [attention.weights.mean(axis=(0, 1)) for attention in trace.maps("cross")]
        weights = np.mean(maps, axis=0)
        if not -len(weights) <= position < len(weights):
            raise ValueError(f"position is {position}, but the target has {len(weights)} positions")
        source = trace.source
        output = trace.target.labels[position]
        note = NOTE if any(source.unknown) else ""
        return cls(source.labels, weights[position], output, source.language, note)


def text(sentence: ShadedSentence, *, coloured: bool) -> Text:
    """Return text for rich: pieces on coloured grounds, or with per cents after the largest
    weights."""
    from rich.text import Text

    parts: list[Text] = []
    for piece, weight in zip(sentence.pieces, sentence.weights.tolist(), strict=True):
        shown = visible(piece)
        if coloured:
            parts.append(Text(shown, style=f"{ink(weight)} on {hexadecimal(weight)}"))
        elif weight >= MIN_PRINTED_WEIGHT:
            parts.append(Text(f"{shown}[{100 * weight:.0f}%]"))
        else:
            parts.append(Text(shown))
    if sentence.note:
        parts.append(Text(f" ({sentence.note})", style="dim"))
    return Text(" ").join(parts)


def save(
    sentence: ShadedSentence,
    path: str | Path,
    *,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning. UserError for any other
    suffix."""
    check_suffix(path)
    write(draw(sentence, style=style, fonts=fonts), path, style.dots)


def draw(sentence: ShadedSentence, *, style: Style = PLAIN, fonts: Fonts | None = None) -> Figure:
    """Draw to a figure: lines of pieces on coloured grounds, the output and a scale below. A
    sentence has no axes, so the names of the style are ignored.

    Characters that no font has are drawn as boxes, and a MissingFontWarning names the font to
    install."""
    pieces, (output,), titles = choose_fonts(
        (list(map(visible, sentence.pieces)), sentence.language),
        ([visible(sentence.output)], None),
        ([spaced(style.title)] if style.title else [], None),
        fonts=fonts,
    )
    with without_glyph_warnings():
        figure = _figure(pieces, sentence.weights, output, sentence.note)
        for title in titles:
            figure.text(0, 1, title.label, family=list(title.families), parse_math=False,
                        size=TYPE, color=INK, va="bottom", ha="left")  # fmt: skip
        scale_to(figure, style.width)
        return figure


@dataclass(frozen=True)
class _Box:
    """Position of a piece, in inches from the upper left corner."""

    choice: Choice
    weight: float
    left: float
    line: int
    width: float


def _figure(
    pieces: list[Choice], weights: Float[np.ndarray, "source"], output: Choice, note: str
) -> Figure:
    from matplotlib.patches import FancyBboxPatch

    boxes = list(_lay_out(pieces, weights))
    lines = 1 + max((box.line for box in boxes), default=0)
    width = max([box.left + box.width for box in boxes] + [2.5])
    height = (lines + 1) * LINE
    figure = empty_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for box in boxes:
        middle = (box.line + 0.5) * LINE
        axes.add_patch(
            FancyBboxPatch(
                (box.left, middle - BOX / 2),
                box.width,
                BOX,
                boxstyle="round,pad=0,rounding_size=0.04",
                linewidth=0,
                facecolor=hexadecimal(box.weight),
            )
        )
        axes.text(box.left + box.width / 2, middle, box.choice.label, color=ink(box.weight),
                  family=list(box.choice.families), size=TYPE, ha="center", va="center_baseline",
                  parse_math=False)  # fmt: skip
    _foot(figure, axes, output, (lines + 0.5) * LINE, width)
    if note:
        axes.text(INSIDE, height, note, size=SMALL, color=QUIET, ha="left", va="top")
    return figure


def _foot(figure: Figure, axes: Axes, output: Choice, y: float, width: float) -> None:
    """Draw the output at the left and the scale at the right."""
    from matplotlib.colors import ListedColormap

    axes.text(INSIDE, y, f"→ {output.label}", family=list(output.families), size=TYPE, color=INK,
              ha="left", va="center_baseline", parse_math=False)  # fmt: skip
    left, length = width - 1.2, 0.8
    axes.imshow(
        np.linspace(0, 1, 64)[None],
        extent=(left, left + length, y + 0.05, y - 0.05),
        cmap=ListedColormap(SCALE),
        vmin=0,
        vmax=1,
        aspect="auto",
    )
    axes.set(xlim=(0, width), ylim=(figure.get_figheight(), 0))
    for x, number, side in ((left, "0", "right"), (left + length, "1", "left")):
        shift = -0.05 if side == "right" else 0.05
        axes.text(x + shift, y, number, size=SMALL, color=QUIET, ha=side, va="center_baseline")
    axes.plot(
        [left, left + length, left + length, left, left],
        [y - 0.05, y - 0.05, y + 0.05, y + 0.05, y - 0.05],
        color=FRAME,
        linewidth=0.5,
    )


def _lay_out(pieces: list[Choice], weights: Float[np.ndarray, "source"]) -> Iterator[_Box]:
    """Yield the boxes of pieces from left to right, wrapped to lines of `WIDTH`."""
    left, line = 0.0, 0
    drawn = zip(pieces, weights.tolist(), widths(pieces, TYPE), strict=True)
    for choice, weight, label in drawn:
        width = label + 2 * INSIDE
        if left and left + width > WIDTH:
            left, line = 0.0, line + 1
        yield _Box(choice, weight, left, line, width)
        left += width + BETWEEN
