"""Style of the axes of figures in docs/."""

from __future__ import annotations

from matplotlib.axes import Axes

from regard.viewing.figure import FRAME, GRID, INK


def style_axes(axes: Axes) -> None:
    """Draw a grid below the data, and the left and the lower spine only."""
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=2, color=FRAME, labelcolor=INK, labelsize=8)
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), linewidth=0.7, color=FRAME)
