"""Figures without a display and without global state; their fonts and their files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.storage.files import whole
from regard.viewing.fonts import Choice, Fonts, MachineFonts, MissingFontWarning, advice, choose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
INK = "#222222"
QUIET = "#6b7078"
"""Colour of names and of numbers at the margin."""
FRAME = "#9aa0a8"
GRID = "#eceff2"

DOTS_AN_INCH = 160
MAX_DOTS = 12_000
"""Upper bound of the longer side of a PNG; larger figures get fewer dots per inch."""
MARGIN = 0.08
"""Inches around a figure."""
NUM_SCALINGS = 3
"""Number of steps of `scale_to`: the width of letters is not quite proportional to their size."""


SIZES = {"width": (1, 100), "dots": (10, 2400)}
"""Smallest and largest width in inches, and dots per inch, of a figure."""


@dataclass(frozen=True)
class Style:
    """Title, names of axes and size of a figure.

    `width` is in inches, margins included; letters and lines are scaled with it. `dots` is the
    resolution of a PNG in dots per inch. ValueError for sizes outside of
    `SIZES`."""

    title: str | None = None
    source_name: str | None = None
    target_name: str | None = None
    width: float | None = None
    dots: int | None = None

    def __post_init__(self) -> None:
        for name, (minimum, maximum) in SIZES.items():
            size = getattr(self, name)
            if size is not None and not minimum <= size <= maximum:
                raise ValueError(f"{name} must be a number from {minimum} to {maximum}, got {size}")


PLAIN = Style()


def scale_to(figure: Figure, width: float | None) -> None:
    """Scale a figure, with its letters and lines, to a width in inches. None: leave it as it is."""
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    if width is None:
        return
    for _ in range(NUM_SCALINGS):
        factor = (width - 2 * MARGIN) / figure.get_tightbbox().width
        figure.set_size_inches(factor * figure.get_figwidth(), factor * figure.get_figheight())
        for artist in figure.findobj():
            if isinstance(artist, Text):
                artist.set_fontsize(factor * float(artist.get_fontsize()))
            elif isinstance(artist, Line2D):
                artist.set_linewidth(factor * artist.get_linewidth())


def empty_figure(width: float, height: float) -> Figure:
    """Return a white figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def widths(choices: Sequence[Choice], type_size: float) -> list[float]:
    """Return the widths of labels in inches; `type_size` is in points."""
    figure = empty_figure(1.0, 1.0)
    texts = [
        figure.text(
            0, 0, choice.label, family=list(choice.families), size=type_size, parse_math=False
        )
        for choice in choices
    ]
    return [float(text.get_window_extent().width / figure.dpi) for text in texts]


def check_suffix(path: str | Path) -> str:
    """Return the format of a figure file by its suffix, such as "png". UserError for any other
    suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path}: expected a file name with {', '.join(SUFFIXES)} for a figure")
    return suffix[1:]


def write(figure: Figure, path: str | Path, dots: int | None = None) -> None:
    """Write a .png, .svg or .pdf file, completely or not at all. Equal figures give equal bytes;
    SVG and PDF keep text as text. `dots` are dots per inch of a PNG."""
    kind, path = check_suffix(path), Path(path)
    with whole(path) as unfinished:
        _save(figure, unfinished, kind, dots)


def png(figure: Figure, dots: int | None = None) -> bytes:
    """Return the content of a PNG file."""
    file = BytesIO()
    _save(figure, file, "png", dots)
    return file.getvalue()


def _save(figure: Figure, file: Path | BytesIO, kind: str, dots: int | None) -> None:
    import matplotlib

    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "regard"}
    metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    dots = min(dots or DOTS_AN_INCH, MAX_DOTS / max(figure.get_size_inches()))
    with matplotlib.rc_context(settings), without_glyph_warnings():
        figure.savefig(
            file,
            format=kind,
            dpi=dots,
            bbox_inches="tight",
            pad_inches=MARGIN,
            metadata=metadata,
        )


def choose_fonts(
    *groups: tuple[Sequence[str], str | None], fonts: Fonts | None = None
) -> list[list[Choice]]:
    """Choose fonts for groups of labels, each with its language, and warn with MissingFontWarning
    about characters that no font has. `fonts` are those of this machine by default."""
    fonts = fonts or MachineFonts()
    choices = [choose(labels, fonts, language) for labels, language in groups]
    for line in advice(chain.from_iterable(choices)):
        warnings.warn(line, MissingFontWarning, stacklevel=3)
    return choices


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Suppress matplotlib's warning for every missing character; `choose_fonts` warns once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
