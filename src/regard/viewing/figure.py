"""Figures without a display and without global state, and their files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.files import whole
from regard.viewing.fonts import Choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
INK = "#222222"
QUIET = "#6b7078"
"""For names and numbers beside the point."""
FRAME = "#9aa0a8"
GRID = "#eceff2"

DOTS_AN_INCH = 160
MOST_DOTS = 12_000
"""The longer side of a PNG; larger ones are drawn more coarsely."""
MARGIN = 0.08
"""Inches around a picture."""


def empty_figure(width: float, height: float) -> Figure:
    """A white figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def widths(choices: Sequence[Choice], type_size: float) -> list[float]:
    """Of labels, in inches."""
    figure = empty_figure(1.0, 1.0)
    texts = [
        figure.text(0, 0, each.label, family=list(each.families), size=type_size, parse_math=False)
        for each in choices
    ]
    return [float(text.get_window_extent().width / figure.dpi) for text in texts]


def check_suffix(path: str | Path) -> str:
    """The kind of picture that a path asks for, such as "png"; UserError for an unknown one."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"a picture is a {', '.join(SUFFIXES)} file, got {path}")
    return suffix[1:]


def write(figure: Figure, path: str | Path) -> None:
    """Write a .png, .svg or .pdf file, whole or not at all. The same figure gives the same bytes;
    text stays text in SVG and PDF."""
    import matplotlib

    kind, path = check_suffix(path), Path(path)
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "regard"}
    metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    dots = min(DOTS_AN_INCH, MOST_DOTS / max(figure.get_size_inches()))
    styled = matplotlib.rc_context(settings)
    with whole(path) as unfinished, styled, missing_glyphs_said_already():
        figure.savefig(
            unfinished,
            format=kind,
            dpi=dots,
            bbox_inches="tight",
            pad_inches=MARGIN,
            metadata=metadata,
        )


@contextmanager
def missing_glyphs_said_already() -> Iterator[None]:
    """Without matplotlib's line for every character: `fonts.advice` says it once, with a remedy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
