"""Figure of a comparison: the score of each run, and mean with deviation of each system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from regard.viewing.colours import hexadecimal
from regard.viewing.figure import FRAME, GRID, INK, QUIET, check_suffix, empty_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Scores = Mapping[str, Sequence[float]]
"""Scores of the runs of each system, by its name."""
WIDTH, ROW, HEAD = 6.4, 0.28, 0.7
"""Width of the figure, height of a system's row and of a panel's margins in inches."""
RUN, MEAN = hexadecimal(0.6), "#c4572a"
MIN_RANGE = 1.0
"""Range of scores below which the axis is widened, so that equal scores look equal."""
MAX_NAME = 40
"""Largest number of characters in a line of a system's name."""


def save(panels: Mapping[str, Scores], path: str | Path) -> None:
    """Draw a panel for each metric to a .png, .svg or .pdf file."""
    check_suffix(path)
    write(draw(panels), path)


def draw(panels: Mapping[str, Scores]) -> Figure:
    """Draw a panel for each metric. The first system is at the top."""
    heights = [HEAD + ROW * len(scores) for scores in panels.values()]
    figure = empty_figure(WIDTH, sum(heights))
    axes = figure.subplots(
        len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights, "hspace": 0.6}
    )[:, 0]
    for (metric, scores), axis in zip(panels.items(), axes, strict=True):
        _panel(axis, metric, scores)
    return figure


def _panel(axis: Axes, metric: str, scores: Scores) -> None:
    low, high = (limit(map(limit, scores.values())) for limit in (min, max))
    for place, values in enumerate(scores.values()):
        places = [place] * len(values)
        axis.plot(values, places, "o", color=RUN, markersize=4, alpha=0.6, clip_on=False)
        deviation = stdev(values) if len(values) > 1 else None
        axis.errorbar(
            fmean(values), place, xerr=deviation, fmt="|", color=MEAN, markersize=11, capsize=3
        )
    axis.set_yticks(
        range(len(scores)), ["\n".join(_lines(name)) for name in scores], fontsize=8, color=INK
    )
    axis.set_ylim(len(scores) - 0.5, -0.5)
    if high - low < MIN_RANGE:
        axis.set_xlim(max(low - MIN_RANGE, 0) if low >= 0 else low - MIN_RANGE, high + MIN_RANGE)
    elif low >= 0:
        axis.set_xlim(left=max(axis.get_xlim()[0], 0))
    axis.set_title(metric, fontsize=9, color=INK, loc="left")
    axis.tick_params(axis="x", labelsize=8, colors=QUIET)
    axis.grid(axis="x", color=GRID)
    axis.set_axisbelow(True)
    for spine in axis.spines.values():
        spine.set_color(FRAME)


def _lines(name: str) -> list[str]:
    """Return a line for each field in the name of a system. Long lines have their end."""
    lines = name.split(", ")
    return [line if len(line) <= MAX_NAME else f"…{line[1 - MAX_NAME :]}" for line in lines]
