"""Training curves: loss, dev score and measures over the updates, drawn from the log of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.viewing.colours import hexadecimal
from regard.viewing.figure import FRAME, GRID, INK, QUIET, check_suffix, empty_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
"""Line of a log: `kind` ("train" or "dev"), `update`, `seconds`, and `loss` with `measures`, or
`score` with `metric` and `best`. Other kinds and fields are ignored."""

Curve = tuple[str, list[Record]]
"""Colour, and the lines with its values."""

REWARD = "reward"
"""Measure of rewarded samples, whose train loss is not a cross entropy as the dev loss is."""
WIDTH, HEIGHT = 6.4, 2.1
"""Size of a panel in inches."""
TRAIN, DEV = hexadecimal(0.6), "#c4572a"
SHARES = ("distinct",)
"""Measures from 0 to 1."""
EDGE = 0.06
"""Share of the updates at each side of the figure where a centred label is wider than its room."""
FEW = 40
"""Largest number of points of a curve that are drawn with markers."""


def read_log(path: str | Path) -> list[Record]:
    """Read the lines of a log.jsonl. An incomplete last line, as a crash leaves it, is ignored.
    UserError for any other line that is not a line of a log, and if the log cannot be read."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the log {path}: {error}") from error
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            record = None
        if isinstance(record, dict) and "kind" in record:
            records.append(record)
        elif number < len(lines):
            raise UserError(
                f"{path}, line {number}: expected a JSON object with a kind, got {line[:60]!r}"
            )
    return records


def save(log: str | Path, path: str | Path) -> None:
    """Draw a run's log.jsonl to a .png, .svg or .pdf file."""
    check_suffix(path)
    write(draw(read_log(log)), path)


def draw(records: Sequence[Record]) -> Figure:
    """Draw the losses above the dev score, with the best score marked, and each measure in a panel
    between them. With rewards the train loss and the dev loss are different quantities, and each
    has a panel. UserError if the log has neither losses nor dev scores."""
    train = _whole_intervals([record for record in records if record["kind"] == "train"])
    dev = [record for record in records if record["kind"] == "dev"]
    losses: dict[str, Curve] = {}
    for name, colour, records_of_kind in (("train", TRAIN, train), ("dev", DEV, dev)):
        if lines := [record for record in records_of_kind if record.get("loss") is not None]:
            losses[name] = colour, lines
    scored = [record for record in dev if record.get("score") is not None]
    if not losses and not scored:
        raise UserError(
            f"nothing to draw: expected a train loss or a dev score in the log, got neither in "
            f"{len(records)} lines"
        )
    measures = list(dict.fromkeys(name for record in train for name in record.get("measures", ())))
    if REWARD in measures:
        groups = {f"{name} loss": {name: curve} for name, curve in losses.items()}
    else:
        groups = {"loss": losses} if losses else {}
    num_panels = len(groups) + len(measures) + bool(scored)
    figure = empty_figure(WIDTH, HEIGHT * num_panels + 0.4)
    panels = list(figure.subplots(num_panels, 1, sharex=True, squeeze=False)[:, 0])
    for axes, (label, curves) in zip(panels, groups.items(), strict=False):
        _draw_losses(axes, curves, label)
    for axes, name in zip(panels[len(groups) :], measures, strict=False):
        _draw_measure(axes, train, name)
    last = max(float(record["update"]) for record in [*train, *dev])
    if scored:
        _draw_score(panels[-1], scored, last)
    panels[-1].set_xlim(0, 1.02 * (last or 1.0))  # only the initial weights may be validated yet
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    panels[-1].set_xlabel(_duration([*train, *dev]), color=QUIET, size=9)
    figure.align_ylabels(panels)
    figure.subplots_adjust(hspace=0.12)
    return figure


def _whole_intervals(records: Sequence[Record]) -> list[Record]:
    """Return training lines, with each line of fewer than half of the usual number of updates
    merged into the line before: the mean of a few updates, as at the end of a training, is far from
    the mean of many."""
    updates = [0, *(record["update"] for record in records)]
    sizes = [last - first for first, last in pairwise(updates)]
    merged, counts = list[Record](), list[int]()
    least = median(sizes or [0]) / 2
    for record, size in zip(records, sizes, strict=True):
        if merged and size < least:
            merged[-1] = _mean_line(merged[-1], counts[-1], record, size)
            counts[-1] += size
        else:
            merged.append(record)
            counts.append(size)
    return merged


def _mean_line(first: Record, first_count: int, last: Record, last_count: int) -> Record:
    """Return the last of two training lines with the means of both, weighted by these numbers of
    updates. A value that one line lacks is that of the other."""

    def mean(values: Record, others: Record, name: str) -> Any:
        value, other = values.get(name), others.get(name)
        if value is None or other is None:
            return other if value is None else value
        return (first_count * value + last_count * other) / (first_count + last_count)

    measures, others = first.get("measures", {}), last.get("measures", {})
    means = {name: mean(measures, others, name) for name in {**measures, **others}}
    return {**last, "loss": mean(first, last, "loss"), "measures": means}


def _draw_losses(axes: Axes, losses: Mapping[str, Curve], label: str) -> None:
    for name, (colour, records) in losses.items():
        _line(axes, records, "loss", colour, name)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.97), ncols=2, frameon=False, fontsize=9,
                labelcolor="linecolor", borderaxespad=0)  # fmt: skip
    axes.set_ylabel(label, color=QUIET, size=9)
    _widen_single_points(axes)
    _tidy(axes)


def _draw_measure(axes: Axes, records: list[Record], name: str) -> None:
    values: list[Record] = [
        {"update": record["update"], name: record["measures"][name]}
        for record in records
        if name in record.get("measures", ())
    ]
    _line(axes, values, name, TRAIN, name)
    axes.set_ylabel(name.replace("_", " "), color=QUIET, size=9)
    _widen_single_points(axes)
    if name in SHARES:
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, 0.0), min(top, 1.0))
    _tidy(axes)


def _widen_single_points(axes: Axes) -> None:
    """Begin the axis at zero if each curve is a single point, which has no range of its own."""
    curves: list[Any] = [line.get_ydata() for line in axes.lines]
    if any(len(values) > 1 for values in curves):
        return
    values = [0.0, *(float(value) for values in curves for value in values)]
    low, high = 1.2 * min(values), 1.2 * max(values)
    axes.set_ylim(low, high if high > low else 1.0)


def _draw_score(axes: Axes, records: list[Record], last: float) -> None:
    """Draw the dev scores. `last` is the last update of the figure."""
    _line(axes, records, "score", DEV, "dev")
    best = _best(records)
    at = best["update"], best["score"]
    at_left, at_right = at[0] <= EDGE * last, at[0] > (1 - EDGE) * last
    side = "left" if at_left else "right" if at_right else "center"
    axes.plot(*at, "o", markersize=7, markerfacecolor="none", markeredgecolor=INK, clip_on=False)
    axes.annotate(
        f"{best['score']:.2f}",
        at,
        xytext=(0, 7),
        textcoords="offset points",
        color=INK,
        size=9,
        ha=side,
        va="bottom",
    )
    axes.set_ylabel(f"dev {best.get('metric', 'score')}", color=QUIET, size=9)
    axes.set_ylim(*_room([float(record["score"]) for record in records]))
    _tidy(axes)


def _best(records: list[Record]) -> Record:
    """Return the last record that was the best so far; in a log without marks, the highest
    score."""
    marked = [record for record in records if record.get("best")]
    return marked[-1] if marked else max(records, key=lambda record: float(record["score"]))


def _room(scores: Sequence[float]) -> tuple[float, float]:
    """Return the limits of the score axis, with room for the label of the best score. The axis of
    equal scores begins at zero."""
    low, high = min(scores), max(scores)
    if low == high:
        return min(low, 0.0), max(2 * high, 1.0)
    bottom = low - 0.1 * (high - low)
    return bottom if low < 0 else max(0.0, bottom), high + 0.3 * (high - low)


def _line(axes: Axes, records: list[Record], field: str, colour: str, name: str) -> None:
    axes.plot(
        [record["update"] for record in records],
        [record[field] for record in records],
        label=name,
        color=colour,
        linewidth=1.4,
        marker="o" if len(records) <= FEW else "",
        markersize=3,
        clip_on=False,
    )


def _tidy(axes: Axes) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=2, color=FRAME, labelcolor=QUIET, labelsize=8)
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), linewidth=0.7, color=FRAME)


def _duration(records: Sequence[Record]) -> str:
    """Return the label of the horizontal axis, with the duration of the training."""
    seconds = max((float(record.get("seconds", 0)) for record in records), default=0.0)
    for unit, size in (("hours", 3600), ("minutes", 60), ("seconds", 1)):
        if seconds >= 2 * size:
            return f"updates ({seconds / size:.3g} {unit})"
    return "updates"
