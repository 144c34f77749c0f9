"""Load of experts, and the pieces that they compute, over many outputs.

            1        2        3        4
    ┃      ███                                       load: positions of an expert / mean
    ┃----- ███ ------ ███ ------ ███ ----------mean
    ┃      ███        ███        ███        ███
         the 0.51   dog 0.63   runs 0.55   . 0.50    pieces with the largest mean gate values
         a   0.48   cat 0.60   is   0.52   , 0.47

Shazeer et al. 2017 show the inputs of an expert with the largest gate values (table 9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import UserError
from regard.names import AttentionKind
from regard.trace import Trace
from regard.viewing.colours import hexadecimal
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
from regard.viewing.fonts import Fonts
from regard.viewing.labels import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_COUNT = 5
"""Number of occurrences from which a piece is listed, unless all pieces are rarer."""
NUM_PIECES = 8
"""Number of pieces listed for each expert."""
MIN_GATE = 0.005
"""Smallest mean gate value of a listed piece; smaller ones would be printed as 0.00."""
TYPE_SIZE = 9.0
# Inches.
BARS, LINE, TITLE, NAMES, GAP = 0.9, 0.17, 0.3, 0.5, 0.15
"""Heights of the bars, of a line of pieces and of a title, the width of the scale, and the space
between columns."""


@dataclass(frozen=True)
class Assignment:
    """Work of the experts of one layer, numbered from 1.

    `load` is the number of positions of each expert, divided by the mean. `importance` is the sum
    of its gate values, divided by the mean. `pieces` are the pieces with the largest mean gate
    values at each expert, with these means, largest first. Means below `MIN_GATE` are left out."""

    layer: int
    load: Float[np.ndarray, "expert"]
    importance: Float[np.ndarray, "expert"]
    pieces: tuple[tuple[tuple[str, float], ...], ...]
    language: str | None = None


def assignments(traces: Iterable[Trace], kind: AttentionKind) -> tuple[Assignment, ...]:
    """Return the work of the experts of every layer over all traces; of an ensemble, of its first
    model. UserError for traces without positions or without experts of this kind."""
    labels: list[str] = []
    gates: list[Float[np.ndarray, "layer position expert"]] = []
    language = None
    for trace in traces:
        if all(attention.kind != kind for attention in trace.attention):
            raise UserError(
                f"the model has no {kind.replace('_', ' ')}: train with "
                f"--model.{kind.removesuffix('_experts')}.experts.number, or name the other side "
                "with --kind"
            )
        sequence = trace.rows(kind)
        language = sequence.language
        labels += sequence.labels
        gates.append(trace.map(kind).weights[:, 0])
    if not labels:
        raise UserError("there are no positions: expected at least one text that is not blank")
    names, numbers = np.unique(np.array(labels, dtype=object), return_inverse=True)
    counts = np.bincount(numbers)
    layers = np.concatenate(gates, axis=1)
    return tuple(
        _assignment(number, layer, (names, numbers, counts), language)
        for number, layer in enumerate(layers, start=1)
    )


def _assignment(
    number: int,
    gates: Float[np.ndarray, "position expert"],
    vocabulary: tuple[np.ndarray, np.ndarray, np.ndarray],
    language: str | None,
) -> Assignment:
    """Return the work of the experts of a layer. The vocabulary has the pieces, the number of the
    piece at each position, and the number of positions of each piece."""
    names, numbers, counts = vocabulary
    sums = np.zeros((len(names), gates.shape[1]))
    np.add.at(sums, numbers, gates)
    is_listed = counts >= min(MIN_COUNT, counts.max())
    means = np.where(is_listed[:, None], sums / counts[:, None], 0.0)
    pieces = []
    for expert in range(gates.shape[1]):
        order = np.lexsort((names.astype(str), -counts, -means[:, expert]))[:NUM_PIECES]
        pieces.append(
            tuple(
                (str(names[i]), float(means[i, expert]))
                for i in order
                if means[i, expert] >= MIN_GATE
            )
        )
    load, importance = (gates > 0).sum(axis=0), gates.sum(axis=0)
    return Assignment(
        number, load / load.mean(), importance / importance.mean(), tuple(pieces), language
    )


def save(
    layers: Sequence[Assignment],
    path: str | Path,
    *,
    style: Style = PLAIN,
    fonts: Fonts | None = None,
) -> None:
    """Draw to a .png, .svg or .pdf file. Warns with MissingFontWarning. UserError for any other
    suffix."""
    check_suffix(path)
    write(draw(layers, style=style, fonts=fonts), path, style.dots)


def draw(
    layers: Sequence[Assignment], *, style: Style = PLAIN, fonts: Fonts | None = None
) -> Figure:
    """Draw one row of bars for each layer. Below its bar each expert has its pieces with their mean
    gate values. Names of axes in the style are ignored."""
    listed = [[short(piece) for piece, _ in pieces] for layer in layers for pieces in layer.pieces]
    flat = [label for labels in listed for label in labels]
    (choices,) = choose_fonts((flat, layers[0].language), fonts=fonts)
    means = [mean for layer in layers for pieces in layer.pieces for _, mean in pieces]
    choices = [
        replace(choice, label=f"{choice.label} {mean:.2f}")
        for choice, mean in zip(choices, means, strict=True)
    ]
    drawn, num_experts = iter(choices), len(layers[0].load)
    with without_glyph_warnings():
        highest = max(float(layer.load.max()) for layer in layers)
        column = GAP + max([0.35, *widths(choices, TYPE_SIZE)])
        height = TITLE + BARS + LINE * (max(map(len, listed)) + 1.5)
        page = NAMES + num_experts * column, len(layers) * height
        figure = empty_figure(*page)
        for row, layer in enumerate(layers):
            top = row * height + TITLE
            bounds = (
                NAMES / page[0], 1 - (top + BARS) / page[1], 1 - NAMES / page[0], BARS / page[1]
            )  # fmt: skip
            axes = figure.add_axes(bounds)
            axes.bar(range(num_experts), layer.load, width=0.6, color=hexadecimal(0.6))
            axes.axhline(1, color=FRAME, linewidth=0.8, linestyle="--")
            axes.text(1, 1, " mean", size=TYPE_SIZE - 1, color=QUIET, ha="left", va="center",
                      transform=axes.get_yaxis_transform())  # fmt: skip
            axes.set_ylabel("load / mean", size=TYPE_SIZE - 1, color=QUIET)
            axes.set_xlim(-0.5, num_experts - 0.5)
            axes.set_ylim(0, 1.05 * max(1.0, highest))
            axes.set_xticks(range(num_experts), [str(n + 1) for n in range(num_experts)])
            axes.tick_params(length=0, labelsize=TYPE_SIZE, colors=QUIET)
            for side in ("top", "right", "bottom", "left"):
                axes.spines[side].set_visible(False)
            name = f"layer {layer.layer}: load of each expert"
            axes.set_title(name, loc="left", size=TYPE_SIZE, color=QUIET)
            for expert, pieces in enumerate(layer.pieces):
                for line, _ in enumerate(pieces):
                    choice = next(drawn)
                    y = -(LINE * (line + 2)) / BARS
                    axes.text(expert, y, choice.label, family=list(choice.families), ha="center",
                              va="center", size=TYPE_SIZE, color=INK, parse_math=False,
                              transform=axes.get_xaxis_transform())  # fmt: skip
        if style.title is not None:
            figure.suptitle(style.title, size=TYPE_SIZE + 2, color=INK, y=1 + TITLE / page[1])
        scale_to(figure, style.width)
        return figure
