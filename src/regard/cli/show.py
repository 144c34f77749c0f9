"""How results look in the terminal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from regard.cli.output import warn
from regard.errors import UserError
from regard.files import shortened
from regard.viewing import figure

if TYPE_CHECKING:
    import numpy as np

    from regard.metrics.classification import Confusion
    from regard.names import LinkUnit
    from regard.tasks.translation.translator import Translation
    from regard.trace import Trace
    from regard.viewing.labels import LabelledMap


NUMBERS = (".json", ".npz")


def steps(translation: Translation) -> str:
    """Every step with its weights on the source, the mean of layers and heads, then the text."""
    trace = translation.trace
    if trace is None:
        return f"Generated: {translation.text}"
    maps = [each.weights.mean(axis=(0, 1)) for each in trace.attention if each.kind == "cross"]
    lines = []
    for number, piece in enumerate(trace.target.pieces):
        weights = ", ".join(f"{weight:.3f}" for weight in maps[0][number]) if maps else ""
        lines.append(f"[Step {number}] {piece}, attn: [{weights}]")
    words = ", ".join(repr(piece) for piece in trace.target.pieces)
    return "\n".join([*lines, f"Generated: [{words}]"])


def links(translation: Translation, unit: LinkUnit) -> str:
    """Links in Pharaoh format; nothing where a blank line was translated."""
    from regard.metrics.alignment import map_links, pharaoh
    from regard.trace import of_kind

    looked = translation.looked
    if looked is None:
        return ""
    found = map_links(of_kind(looked.maps, "cross"), looked.source, looked.target, unit=unit)
    return pharaoh(found)


def attention_map(what: Trace | LabelledMap) -> None:
    """Draw the attention in the terminal, in colour where it has some."""
    from regard.viewing import terminal

    console = Console()
    cell = terminal.painted if console.color_system else terminal.shaded
    console.print(terminal.draw(what, width=console.width, cell=cell))


def tinted(trace: Trace) -> None:
    """Print a source whose pieces are tinted by what the answer took of them."""
    from regard.viewing import sentence

    console = Console()
    coloured = console.color_system is not None
    console.print(
        sentence.text(sentence.ShadedSentence.of(trace), coloured=coloured), soft_wrap=True
    )


def confusion(found: Confusion) -> None:
    """Print a table of what was right (down) and what was answered (across), with each label's
    precision, recall and F1."""
    from rich.table import Table

    table = Table(title="right, down; answered, across", box=None, title_justify="left")
    table.add_column("")
    for label in [*found.labels, "precision", "recall", "F1"]:
        table.add_column(label, justify="right")
    shares = zip(found.precisions, found.recalls, found.f1, strict=True)
    for label, counts, values in zip(found.labels, found.counts, shares, strict=True):
        table.add_row(label, *map(str, counts), *(f"{100 * value:.1f}" for value in values))
    Console().print(table)


def check_picture(path: Path) -> None:
    """UserError where neither a picture nor the numbers can be written there."""
    if path.suffix not in NUMBERS and path.suffix.lower() not in figure.SUFFIXES:
        raise UserError(
            f"{shortened(path)} would be neither a picture ({', '.join(figure.SUFFIXES)}) nor the "
            f"numbers ({', '.join(NUMBERS)}): name one of these"
        )


def save_picture(what: Trace | LabelledMap, path: Path) -> None:
    """Write a picture (.png, .svg, .pdf)."""
    from regard.viewing import heatmap

    with saying_warnings():
        heatmap.save(what, path)


def save_sentence(trace: Trace, path: Path) -> None:
    """Write a picture of a sentence that is tinted by what its answer took of it."""
    from regard.viewing import sentence

    with saying_warnings():
        sentence.save(sentence.ShadedSentence.of(trace), path)


def save_overlay(looks: LabelledMap, picture: np.ndarray, path: Path, *, smooth: bool) -> None:
    """Write a picture of what each word of a caption looked at."""
    from regard.viewing import overlay

    with saying_warnings():
        overlay.save(looks, picture, path, smooth=smooth)


@contextmanager
def saying_warnings() -> Iterator[None]:
    """Missing fonts and the like as plain lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn(str(warning.message))
