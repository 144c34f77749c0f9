"""Tables and figure of table2.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from axes import style_axes
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from table2_systems import ENSEMBLE, SEEDS, SYSTEMS, Result, Settings, phases_of

from regard.storage.files import LOG
from regard.viewing.curve import read_log
from regard.viewing.figure import QUIET, empty_figure, write

COLOURS = {
    "bytenet": "#8c6d31",
    "deep-att": "#7a6f9b",
    "gnmt": "#4a90c4",
    "gnmt-rewards": "#1f4e79",
    "convs2s": "#2e8b57",
    "experts": "#d98a1f",
    "transformer": "#c4572a",
}

FIGURE = (
    "![Left: BLEU on the dev pairs over the FLOPs of training, a line for each system. Right: BLEU "
    "on the test pairs, of every seed, their mean and their ensemble](figures/table2.png)"
)
"""Line of the page that shows the figure."""

Curves = list[tuple[list[float], list[float]]]
"""FLOPs and dev BLEU of every validation, for each seed of a system."""


def of_system(results: Sequence[Result], name: str) -> tuple[list[Result], Result]:
    """Return the results of a system's trainings and of its ensemble."""
    rows = [result for result in results if result.system == name]
    (ensemble,) = [result for result in rows if result.seed == ENSEMBLE]
    return [result for result in rows if result.seed != ENSEMBLE], ensemble


def tables(results: Sequence[Result]) -> str:
    """Return the tables of the page, in Markdown."""
    scores = [
        "| system | published: one model; ensemble | BLEU | seeds | ensemble of 3 |",
        "|---|---|---|---|---|",
    ]
    costs = [
        "| system | layers | parameters | without embeddings | updates | CPU time | memory | path "
        "between source positions | measured |",
        "|---" * 9 + "|",
    ]
    for name, system in SYSTEMS.items():
        runs, ensemble = of_system(results, name)
        values = [run.bleu for run in runs]
        seeds = ", ".join(f"{value:.1f}" for value in values)
        spread = f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"
        scores.append(
            f"| {system.title} | {system.published} | {spread} | {seeds} | {ensemble.bleu:.1f} |"
        )
        first = runs[0]
        minutes = statistics.fmean(run.cpu_seconds for run in runs) / 60
        megabytes = max(run.megabytes for run in runs)
        costs.append(
            f"| {system.title} | {system.layers} | {first.parameters:,} | "
            f"{first.parameters - first.embeddings:,} | {first.updates:,} | {minutes:.0f} min | "
            f"{megabytes:,.0f} MB | {system.path} | {first.path} (n = {first.path_positions}) |"
        )
    return "\n".join([*scores, "", *costs])


def read_curves(name: str, settings: Settings) -> Curves:
    """Return the curves of a system, from the logs of its trainings."""
    lines = []
    for seed in SEEDS:
        flops, scores, spent = list[float](), list[float](), 0.0
        for phase in phases_of(SYSTEMS[name], seed, settings):
            for record in read_log(settings.folder(name, seed) / phase.name / LOG):
                if record["kind"] == "dev":
                    flops.append(spent + record["update"] * phase.flops_of_update)
                    scores.append(record["score"])
            spent += phase.flops
        lines.append((flops, scores))
    return lines


def draw(results: Sequence[Result], curves: Mapping[str, Curves], path: Path) -> None:
    """Draw dev BLEU over FLOPs on the left, and test BLEU of seeds and ensembles on the right."""
    figure = empty_figure(9.6, 3.9)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.1])
    order = sorted(SYSTEMS, key=lambda name: of_system(results, name)[1].bleu)
    for place, name in enumerate(order):
        draw_curve(left, curves[name], COLOURS[name])
        draw_row(right, place, *of_system(results, name))
    left.set_xlabel("FLOPs of training, in units of 10¹³", color=QUIET, size=9)
    left.set_ylabel("BLEU on the dev pairs", color=QUIET, size=9)
    left.set_xlim(left=0)
    left.set_ylim(bottom=0)
    right.set_yticks(range(len(order)), [SYSTEMS[name].title for name in order])
    right.set_ylim(-0.6, len(order) - 0.4)
    right.set_xlabel("BLEU on the test pairs", color=QUIET, size=9)
    for axes in (left, right):
        style_axes(axes)
    for label, name in zip(right.get_yticklabels(), order, strict=True):
        label.set(color=COLOURS[name], fontsize=9, fontweight="bold")
    marks = [
        Line2D([], [], marker="o", linestyle="", color=QUIET, markersize=4, label="seed"),
        Line2D([], [], marker="|", color=QUIET, markersize=10, label="mean, standard deviation"),
        Line2D([], [], marker="D", linestyle="", color=QUIET, markersize=6,
               markerfacecolor="white", label="ensemble of the seeds"),
    ]  # fmt: skip
    right.legend(
        handles=marks, loc="lower right", bbox_to_anchor=(1.12, 1), ncols=3, fontsize=8,
        frameon=False, columnspacing=1.2, handletextpad=0.5,
    )  # fmt: skip
    figure.subplots_adjust(wspace=0.52)
    write(figure, path)


def draw_curve(axes: Axes, lines: Curves, colour: str) -> None:
    """Draw the mean dev score of a system over FLOPs, and the range of the seeds."""
    flops = [values[0] / 1e13 for values in zip(*(flops for flops, _ in lines), strict=True)]
    scores = [*zip(*(scores for _, scores in lines), strict=True)]
    low, high = [min(values) for values in scores], [max(values) for values in scores]
    axes.fill_between(flops, low, high, color=colour, alpha=0.18, linewidth=0)
    means = [statistics.fmean(values) for values in scores]
    axes.plot(flops, means, color=colour, marker="o", markersize=3, linewidth=1.5)


def draw_row(axes: Axes, place: int, runs: Sequence[Result], ensemble: Result) -> None:
    """Draw the test scores of a system, with the mean and the ensemble's score as numbers."""
    colour = COLOURS[ensemble.system]
    values = [run.bleu for run in runs]
    mean = statistics.fmean(values)
    axes.plot(values, [place] * len(values), "o", color=colour, markersize=4, alpha=0.6)
    axes.errorbar(
        mean, place, xerr=statistics.stdev(values), fmt="|", color=colour, markersize=10, capsize=2,
    )  # fmt: skip
    axes.plot(
        ensemble.bleu, place, "D", markersize=6, markerfacecolor="white", markeredgecolor=colour,
        markeredgewidth=1.3,
    )  # fmt: skip
    axes.text(
        1.02, place, f"{mean:.1f}  /  {ensemble.bleu:.1f}", color=colour, size=8.5, va="center",
        transform=axes.get_yaxis_transform(),
    )  # fmt: skip
