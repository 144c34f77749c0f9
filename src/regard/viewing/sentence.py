"""A sentence whose pieces are tinted by what one answer took of them.

    What [county] is [Modesto] , California [in] ?   ->   location

One target position alone: a label, a number, or one word of a text. Longer texts go on in the next
line. All pictures share one scale, from 0 to 1.
"""

from __future__ import annotations

import warnings
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
    QUIET,
    check_suffix,
    empty_figure,
    missing_glyphs_said_already,
    widths,
    write,
)
from regard.viewing.fonts import Choice, Fonts, MachineFonts, MissingFontWarning, advice, choose
from regard.viewing.labels import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.text import Text

LEAST_SHOWN = 0.05
"""In a terminal without colours, lighter pieces have no per cents."""

# Inches, and points for type.
WIDTH = 7.0
LINE = 0.4
BETWEEN = 0.05
INSIDE = 0.06
BOX = 0.27
TYPE, SMALL = 11.0, 8.0


@dataclass(frozen=True)
class ShadedSentence:
    """Pieces with a weight each, and what they are the grounds of."""

    pieces: tuple[str, ...]
    weights: Float[np.ndarray, "source"]
    answer: str
    language: str | None = None

    @classmethod
    def of(cls, trace: Trace, position: int = 0) -> ShadedSentence:
        """What this target position looked at, the mean over layers and heads, and over the models
        that wrote together. ValueError where the trace has no such look."""
        maps = [each.weights.mean(axis=(0, 1)) for each in trace.maps("cross")]
        weights = np.mean(maps, axis=0)
        if not -len(weights) <= position < len(weights):
            raise ValueError(f"position is {position}, but there are {len(weights)}")
        source = trace.source
        return cls(source.pieces, weights[position], trace.target.pieces[position], source.language)


def text(tinted: ShadedSentence, *, coloured: bool) -> Text:
    """For rich to print: colours behind the pieces, or per cents after those that weigh most."""
    from rich.text import Text

    parts: list[Text] = []
    for piece, weight in zip(tinted.pieces, tinted.weights.tolist(), strict=True):
        shown = visible(piece)
        if coloured:
            parts.append(Text(shown, style=f"{ink(weight)} on {hexadecimal(weight)}"))
        elif weight >= LEAST_SHOWN:
            parts.append(Text(f"{shown}[{100 * weight:.0f}%]"))
        else:
            parts.append(Text(shown))
    return Text(" ").join(parts)


def save(tinted: ShadedSentence, path: str | Path, *, fonts: Fonts | None = None) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning."""
    check_suffix(path)
    write(draw(tinted, fonts=fonts), path)


def draw(tinted: ShadedSentence, *, fonts: Fonts | None = None) -> Figure:
    """Draw to a figure: boxes of pieces, line by line, with the answer and a scale below.

    Characters that no font has are drawn as boxes, and a MissingFontWarning says what to
    install."""
    fonts = fonts or MachineFonts()
    pieces = choose([visible(piece) for piece in tinted.pieces], fonts, tinted.language)
    answers = choose([visible(tinted.answer)], fonts)
    for line in advice([*pieces, *answers]):
        warnings.warn(line, MissingFontWarning, stacklevel=2)
    with missing_glyphs_said_already():
        return _figure(pieces, tinted.weights, answers[0])


@dataclass(frozen=True)
class _Box:
    """Inches from the upper left corner."""

    choice: Choice
    weight: float
    left: float
    line: int
    width: float


def _figure(pieces: list[Choice], weights: Float[np.ndarray, "source"], answer: Choice) -> Figure:
    from matplotlib.patches import FancyBboxPatch

    boxes = list(_lay_out(pieces, weights))
    lines = 1 + max((box.line for box in boxes), default=0)
    width = max([box.left + box.width for box in boxes] + [2.5])
    height = lines * LINE + LINE + 0.1
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
    _foot(figure, axes, answer, (lines + 0.5) * LINE, width)
    return figure


def _foot(figure: Figure, axes: Axes, answer: Choice, y: float, width: float) -> None:
    """The answer at the left, the scale at the right."""
    from matplotlib.colors import ListedColormap

    axes.text(INSIDE, y, f"→ {answer.label}", family=list(answer.families), size=TYPE, color=INK,
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
    """From left to right, and on in the next line where there is no room."""
    left, line = 0.0, 0
    drawn = zip(pieces, weights.tolist(), widths(pieces, TYPE), strict=True)
    for choice, weight, label in drawn:
        width = label + 2 * INSIDE
        if left and left + width > WIDTH:
            left, line = 0.0, line + 1
        yield _Box(choice, weight, left, line, width)
        left += width + BETWEEN
