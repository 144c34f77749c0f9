"""Figures and progress as HTML in notebooks. IPython is used only if it is loaded already."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from regard.errors import UserError
from regard.names import AttentionKind
from regard.trace import Trace
from regard.viewing import heatmap, overlay, sentence
from regard.viewing.figure import MARGIN, png
from regard.viewing.labels import QUANTITIES, LabelledMap, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_POSITIONS = 80
"""Largest number of rows or columns of a heatmap that is drawn by default."""
MAX_PANELS = 35
"""Largest number of words that are drawn on an image by default."""
MAX_DESCRIBED = 12
"""Largest number of output tokens whose attention the alternative text describes."""
DOTS_AN_INCH, PIXELS_AN_INCH = 160, 96
"""Resolution of the image, and the number of pixels that browsers call an inch."""

CELL = "cell"
"""Name of a source position of an image."""
TOO_LONG = "too long for a figure here: regard plot draws the attention"

Colours = UInt8[np.ndarray, "channel height width"]


class DescribedFigure(NamedTuple):
    """Figure with its description for readers who do not see it."""

    figure: Figure
    description: str


def describe_figure(
    trace: Trace, image: Callable[[], Colours | None] | None = None
) -> DescribedFigure | None:
    """Return the figure of an output: the weights of a caption on its image, of a single token on
    the words of its source, of other texts as a heatmap of the mean over layers and heads. None
    without attention, and for a long output or source (`MAX_POSITIONS`, `MAX_PANELS`)."""
    kinds = [attention.kind for attention in trace.attention]
    if not kinds:
        return None
    kind: AttentionKind = next((kind for kind in ("cross", "image") if kind in kinds), kinds[0])
    colours = image() if image is not None and kind == "image" else None
    if colours is not None:
        words = LabelledMap.of_words(trace, "image")
        if len(words.row_labels) > MAX_PANELS:
            return None
        figure = overlay.draw(words, colours)
        return DescribedFigure(figure, _described(_with_cells(words), CELL))
    full = LabelledMap.of_trace(trace, kind)
    if max(full.weights.shape[2:]) > MAX_POSITIONS:
        return None
    mean = _averaged(full)
    if kind == "cross" and len(full.row_labels) == 1:
        figure = sentence.draw(sentence.ShadedSentence.of(trace))
    else:
        figure = heatmap.draw(mean)
    return DescribedFigure(figure, _described(mean, "token"))


def _averaged(labelled: LabelledMap) -> LabelledMap:
    """Return the mean over layers and heads, whose numbers are in the title."""
    layers, heads = labelled.weights.shape[:2]
    names = [
        f"{number} {name}" for number, name in ((layers, "layers"), (heads, "heads")) if number > 1
    ]
    title = f"mean over {' and '.join(names)}" if names else ""
    return replace(labelled.averaged(), title=title)


def _with_cells(words: LabelledMap) -> LabelledMap:
    """Return the map of an image with the row and the column of each cell as its label."""
    side = math.isqrt(len(words.column_labels))
    places = (divmod(cell, side) for cell in range(len(words.column_labels)))
    labels = tuple(f"row {row + 1}, column {column + 1}" for row, column in places)
    return replace(words, column_labels=labels)


def _described(labelled: LabelledMap, name: str) -> str:
    """Return the largest weight of each row as text."""
    weights = labelled.weights.mean(axis=(0, 1))
    num_rows, num_columns = weights.shape
    columns = labelled.column_labels if name == CELL else [*map(visible, labelled.column_labels)]
    parts = [
        f"{visible(labelled.row_labels[row])}: {columns[column]} {100 * weights[row, column]:.0f}%"
        for row, column in enumerate(weights.argmax(axis=1)[:MAX_DESCRIBED])
    ]
    rest = "; …" if num_rows > MAX_DESCRIBED else ""
    relation = ("Attention", "to")
    if labelled.quantity == QUANTITIES["gradient"]:
        relation = ("Gradient", "with respect to")
    return (
        f"{relation[0]} of {_counted(num_rows, 'output token')} {relation[1]} "
        f"{_counted(num_columns, f'source {name}')}. Largest {labelled.quantity} of each: "
        f"{'; '.join(parts)}{rest}"
    )


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def page(
    source: str,
    text: str,
    facts: Sequence[str],
    trace: Trace | None = None,
    image: Callable[[], Colours | None] | None = None,
) -> str:
    """Return a result as HTML: source, output, facts, and the figure of its attention."""
    lines = [
        f'<div><span dir="auto">{escape(source)}</span> → '
        f'<strong dir="auto">{escape(text) or "(empty)"}</strong></div>'
    ]
    if facts:
        lines.append(f"<div><small>{escape('; '.join(facts))}</small></div>")
    try:
        figure = None if trace is None else describe_figure(trace, image)
        if figure is None and trace is not None and trace.attention:
            lines.append(f"<div><small>{TOO_LONG}</small></div>")
    except UserError as error:  # the image of a caption may be gone
        figure = None
        lines.append(f"<div><small>{escape(str(error))}</small></div>")
    if figure is not None:
        lines.append(_image(figure))
    return f"<div>{''.join(lines)}</div>"


def _image(figure: DescribedFigure) -> str:
    content = png(figure.figure, DOTS_AN_INCH)
    width = figure.figure.get_tightbbox().width + 2 * MARGIN
    data = base64.b64encode(content).decode()
    return (
        f'<img src="data:image/png;base64,{data}" width="{round(width * PIXELS_AN_INCH)}" '
        f'style="max-width: 100%" alt="{escape(figure.description)}">'
    )


class Output:
    """Output of a notebook's cell whose content can be replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, html: str, text: str) -> None:
        """Show HTML, or text where HTML cannot be shown, in place of the earlier content."""
        from IPython.display import display

        content = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def is_notebook() -> bool:
    """Return whether this program runs in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
