"""Results in the terminal, and figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.characters import with_escapes
from regard.cli.output import warn
from regard.errors import UserError
from regard.storage.files import shorten_name
from regard.viewing import figure, labels

if TYPE_CHECKING:
    from regard.metrics.classification import Confusion
    from regard.trace import Trace
    from regard.viewing.experts import Assignment
    from regard.viewing.feature_maps import FeatureMaps
    from regard.viewing.labels import LabelledMap
    from regard.viewing.overlay import OverlaySettings


NUMBERS = (".json", ".npz")
MAX_ROWS = 40
"""Largest number of rows that a terminal shows well."""
MAX_LABELS = 8
"""Largest number of labels of a table of predictions. With more, each has one row of scores."""
SCORES = ("precision", "recall", "F1")
"""Columns of the scores of a label."""


def attention_map(attention: Trace | LabelledMap) -> None:
    """Draw a heatmap in the terminal, in colour if the terminal has colours."""
    from regard.viewing import terminal

    console = Console()
    cell = terminal.painted if console.color_system else terminal.shaded
    labelled = labels.labelled(attention)
    console.print(terminal.draw(labelled, width=console.width, cell=cell))
    legend = terminal.legend(
        width=console.width, cell=cell, quantity=labelled.quantity, scale=labelled.scale
    )
    console.print(legend)
    if len(labelled.row_labels) > MAX_ROWS:
        warn("this map is large: write a figure with -o map.png")


def strongest_cells(words: LabelledMap) -> None:
    """Print each word of a caption with the grid cell of the image that it attends to most."""
    from rich.table import Table

    from regard.viewing import overlay

    grids = overlay.grids(words)
    table = Table("word", box=None)
    for name in ("row", "column", "per cent"):
        table.add_column(name, justify="right")
    for word, grid in zip(words.row_labels, grids, strict=True):
        row, column = divmod(int(grid.argmax()), grid.shape[1])
        table.add_row(word, str(row + 1), str(column + 1), f"{100 * grid.max():.0f}")
    Console().print(table)
    side = grids.shape[1]
    warn(
        f"largest weight of {side} x {side} cells, counted from the top left; -o FILE draws the "
        "weights on the image"
    )


def tinted(trace: Trace) -> None:
    """Print a source whose pieces are coloured by the attention weights of the prediction."""
    from regard.viewing import sentence

    console = Console()
    coloured = console.color_system is not None
    console.print(
        sentence.text(sentence.ShadedSentence.of(trace), coloured=coloured), soft_wrap=True
    )


def expert_loads(layers: Sequence[Assignment]) -> None:
    """Print the load of each expert of each layer, divided by the mean, and its pieces."""
    table = Table("layer", "expert", box=None)
    for name in ("load", "importance"):
        table.add_column(name, justify="right")
    table.add_column("pieces with the largest mean gate values")
    for layer in layers:
        work = zip(layer.load, layer.importance, layer.pieces, strict=True)
        for expert, (load, importance, pieces) in enumerate(work, start=1):
            names = "  ".join(f"{labels.short(piece)} {mean:.2f}" for piece, mean in pieces)
            numbers = f"{load:.2f}", f"{importance:.2f}"
            table.add_row(str(layer.layer), str(expert), *numbers, Text(names))
    Console().print(table)


def confusion(matrix: Confusion) -> None:
    """Print the number of predictions (columns) for each true label (rows), with the precision,
    recall and F1 of each label. For many labels, print the most frequent wrong prediction of each
    instead. Labels that are neither true nor predicted are not shown."""
    sums = matrix.counts.sum(axis=0) + matrix.counts.sum(axis=1)
    shown = np.flatnonzero(sums).tolist()
    Console().print(_counts(matrix, shown) if len(shown) <= MAX_LABELS else _errors(matrix, shown))


def _counts(matrix: Confusion, shown: list[int]) -> Table:
    table = Table(title="rows: true labels; columns: predictions", box=None, title_justify="left")
    table.add_column("")
    for label in [*(matrix.labels[number] for number in shown), *SCORES]:
        table.add_column(_name(label), justify="right")
    for number in shown:
        counts = map(str, matrix.counts[number, shown])
        table.add_row(_name(matrix.labels[number]), *counts, *_scores(matrix, number))
    return table


def _errors(matrix: Confusion, shown: list[int]) -> Table:
    table = Table(title="true labels", box=None, title_justify="left")
    table.add_column("")
    for name in ("examples", *SCORES):
        table.add_column(name, justify="right")
    table.add_column("most frequent error")
    for number in shown:
        counts = matrix.counts[number].copy()
        num_examples, counts[number] = counts.sum(), 0
        error = f"{matrix.labels[counts.argmax()]} ({counts.max()})" if counts.any() else ""
        scores = _scores(matrix, number)
        label = _name(matrix.labels[number])
        table.add_row(label, str(num_examples), *scores, _name(error))
    return table


def _name(label: str) -> Text:
    """Return a label for a table, without markup and with escapes of invisible characters."""
    return Text(with_escapes(label))


def _scores(matrix: Confusion, number: int) -> list[str]:
    values = (matrix.precisions, matrix.recalls, matrix.f1)
    return [f"{100 * scores[number]:.1f}" for scores in values]


def check_figure(path: Path) -> None:
    """Raise a UserError unless the suffix of the file is that of figures or of numbers."""
    if path.suffix not in NUMBERS and path.suffix.lower() not in figure.SUFFIXES:
        raise UserError(
            f"{shorten_name(path)} has no known suffix: expected a figure "
            f"({', '.join(figure.SUFFIXES)}) or numbers ({', '.join(NUMBERS)})"
        )


def save_figure(
    attention: Trace | LabelledMap, path: Path, style: figure.Style = figure.PLAIN
) -> None:
    """Write a heatmap (.png, .svg, .pdf)."""
    from regard.viewing import heatmap

    with printed_warnings():
        heatmap.save(attention, path, style=style)


def save_experts(layers: Sequence[Assignment], path: Path, style: figure.Style) -> None:
    """Write a figure of the load and the pieces of experts."""
    from regard.viewing import experts

    with printed_warnings():
        experts.save(layers, path, style=style)


def save_feature_maps(
    maps: FeatureMaps, image: np.ndarray | None, path: Path, style: figure.Style
) -> None:
    """Write a figure of the feature maps of an encoder, for an image beside the image."""
    from regard.viewing import feature_maps

    with printed_warnings():
        feature_maps.save(maps, path, image=image, style=style)


def save_sentence(trace: Trace, path: Path, style: figure.Style) -> None:
    """Write a figure of a source that is coloured by the attention weights of its prediction."""
    from regard.viewing import sentence

    with printed_warnings():
        sentence.save(sentence.ShadedSentence.of(trace), path, style=style)


def save_overlay(
    words: LabelledMap,
    image: np.ndarray,
    path: Path,
    settings: OverlaySettings,
    style: figure.Style,
) -> None:
    """Write a figure of the attention of each word of a caption on the image."""
    from regard.viewing import overlay

    with printed_warnings():
        overlay.save(words, image, path, settings=settings, style=style)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print warnings, such as of missing fonts, one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn(str(warning.message))
