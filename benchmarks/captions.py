"""Train captioners with soft attention, with hard attention and without attention.

    python benchmarks/captions.py                            (three hours of one core, Zen 3)
    python benchmarks/captions.py --systems plain --seeds 1

The data are the generated scenes of the recipe `shapes-caption`. The encoder has a fourth block of
convolutions, so that most grid cells are computed from the whole image and contain the number of
shapes. Trainings have 8 epochs, dropout 0.1 and no averaged weights. Repeat the command to
continue: finished trainings are skipped, and an interrupted training is resumed. A run SYSTEM-SEED
in the output folder that `regard train` has trained with these options is used as it is. When all
trainings are finished, the script writes the figure and the table of docs/captioning.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from axes import style_axes
from matplotlib.axes import Axes
from whole_runs import (
    finish_training,
    last_scores,
    rewrite_block,
    run_command,
    training_usages,
)

from regard.storage.files import LOG, locked, whole
from regard.viewing.curve import read_log
from regard.viewing.figure import QUIET, empty_figure, write

ROOT = Path(__file__).parents[1]
RECIPE = "shapes-caption"
SEEDS = (1, 2, 3)
SCORES = {
    "true": "all scenes",
    "true, 1 shape": "one shape",
    "true, 2 shapes": "two",
    "true, 3 shapes": "three",
}
"""Scores of `regard evaluate` that are percentages of true captions, and their titles."""
ATTENTION = "attention"
"""Score: attention in the box of a described shape, relative to uniform attention."""
FIGURE = (
    "![Percentage of true captions over the number of shapes, with a line for soft attention, hard "
    "attention and no attention, and a dot for every seed](figures/captions-attention.png)"
)
"""Line of the page that shows the figure."""
TINY = {
    "--data.synthetic-size": "60",
    "--data.dev-size": "10",
    "--data.test-size": "15",
    "--data.image-size": "32",
    "--model.size": "8",
    "--training.updates": "2",
    "--search.max-length": "8",
}
"""Options of the tests."""


@dataclass(frozen=True)
class System:
    """Captioner: the changes to the recipe."""

    title: str
    colour: str
    options: str


COMMON = (
    "--model.encoder.channels 32 64 128 128 --model.dropout 0.1 --training.epochs 8 "
    "--training.average None"
)
"""Options of all systems."""
SYSTEMS = {
    "soft": System("soft attention", "#1f4e79", ""),
    "hard": System(
        "hard attention",
        "#d98a1f",
        "--model.decoder.attention.sampling straight_through "
        "--model.decoder.attention.doubly-stochastic 0",
    ),
    "plain": System(
        "no attention",
        "#c4572a",
        "--model.decoder.wiring plain --model.decoder.no-gate "
        "--model.decoder.attention.doubly-stochastic 0",
    ),
}


@dataclass(frozen=True)
class Result:
    """Scores of a run, and the resources of its training and validations. A run of another script
    has no resources."""

    system: str
    seed: int
    scores: dict[str, float]
    updates: int
    cpu_seconds: float | None
    megabytes: float | None


def command(name: str, seed: int, output: Path, *, is_tiny: bool) -> list[str]:
    """Return the command that trains a system."""
    options = {"--training.seed": str(seed), **(TINY if is_tiny else {})}
    words = [word for option in options.items() for word in option]
    changes = f"{COMMON} {SYSTEMS[name].options}".split()
    return ["train", RECIPE, "--output", str(run_folder(output, name, seed)), *changes, *words]


def run_folder(output: Path, name: str, seed: int) -> Path:
    return output / f"{name}-{seed}"


def finish(name: str, seed: int, output: Path, *, is_tiny: bool) -> None:
    """Train and score a system unless its result is saved. SystemExit if a command fails."""
    run = run_folder(output, name, seed)
    file = run.with_suffix(".json")
    lock = output / f"{name}-{seed}.lock"
    lock.mkdir(exist_ok=True)
    with locked(lock):
        if file.exists():
            return
        if not training_usages(run) and is_finished(run):
            (run / "finished").touch()
        finish_training(command(name, seed, output, is_tiny=is_tiny), run)
        run_command("evaluate", str(run))
        result = scored(name, seed, run)
        with whole(file) as unfinished:
            unfinished.write_text(json.dumps(asdict(result), indent=1), encoding="utf8")
    print(f"{name}, seed {seed}: {result.scores['true']:.1f} % true", flush=True)


def is_finished(run: Path) -> bool:
    """Return whether the training of a run is complete."""
    records = read_log(run / LOG) if (run / LOG).exists() else []
    return bool(records) and records[-1].get("reason") == "finished"


def scored(name: str, seed: int, run: Path) -> Result:
    """Return the result of an evaluated run."""
    scores = last_scores(run)
    usages = training_usages(run)
    return Result(
        name,
        seed,
        {metric: scores[metric] for metric in (*SCORES, ATTENTION) if metric in scores},
        read_log(run / LOG)[-1]["update"],
        sum(usage.cpu_seconds for usage in usages) if usages else None,
        max(usage.megabytes for usage in usages) if usages else None,
    )


def all_results(output: Path) -> list[Result]:
    """Return all results in the output folder, in the order of systems and seeds."""
    files = [
        run_folder(output, name, seed).with_suffix(".json") for name in SYSTEMS for seed in SEEDS
    ]
    return [
        Result(**json.loads(file.read_text(encoding="utf8"))) for file in files if file.exists()
    ]


def table(results: Sequence[Result]) -> str:
    """Return the table of the page in Markdown: mean and standard deviation over the seeds."""
    columns = ["captioner", *SCORES.values(), ATTENTION, "updates", "CPU time", "memory"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for name, system in SYSTEMS.items():
        runs = [result for result in results if result.system == name]
        cells = [system.title, *(spread(runs, metric, " %") for metric in SCORES)]
        cells.append(spread(runs, ATTENTION, " x") if ATTENTION in runs[0].scores else "–")
        seconds = [run.cpu_seconds for run in runs if run.cpu_seconds is not None]
        megabytes = [run.megabytes for run in runs if run.megabytes is not None]
        cells += [
            f"{runs[0].updates:,}",
            f"{statistics.fmean(seconds) / 60:.0f} min" if seconds else "–",
            f"{max(megabytes):,.0f} MB" if megabytes else "–",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(runs: Sequence[Result], metric: str, unit: str) -> str:
    """Return mean and standard deviation of a score over the seeds."""
    values = [run.scores[metric] for run in runs]
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}{unit}"


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw the percentage of true captions over the number of shapes: a line of means for each
    system, and a dot for each seed."""
    figure = empty_figure(5.4, 3.4)
    axes = figure.subplots()
    metrics = [*SCORES][1:]
    means = dict[str, float]()
    for place, (name, system) in enumerate(SYSTEMS.items()):
        runs = [result for result in results if result.system == name]
        offset = 0.06 * (place - 1)
        values = [[run.scores[metric] for run in runs] for metric in metrics]
        for number, dots in enumerate(values, start=1):
            axes.plot(
                [number + offset] * len(dots), dots, "o", color=system.colour, markersize=4,
                alpha=0.55, markeredgewidth=0, clip_on=False,
            )  # fmt: skip
        line = [statistics.fmean(dots) for dots in values]
        places = [number + offset for number in range(1, len(line) + 1)]
        axes.plot(places, line, color=system.colour, linewidth=1.6)
        means[name] = line[-1]
    lowest = min(result.scores[metric] for result in results for metric in metrics)
    low = max(0.0, 10 * (lowest // 10) - 5)
    axes.set_ylim(low, 100)
    axes.set_xlim(0.8, len(metrics) + 0.2)
    label(axes, means, (100 - low) / 15)
    axes.set_xticks(range(1, len(metrics) + 1), ["one shape", "two shapes", "three shapes"])
    axes.set_ylabel("true captions in per cent", color=QUIET, size=9)
    style_axes(axes)
    write(figure, path)


def label(axes: Axes, means: dict[str, float], distance: float) -> None:
    """Write title and mean of each system beside the end of its line, at least this far apart."""
    height = float("inf")
    for name in sorted(means, key=lambda name: -means[name]):
        height = min(means[name], height - distance)
        axes.text(
            1.02, height, f"{SYSTEMS[name].title}, {means[name]:.1f}", size=8.5, va="center",
            color=SYSTEMS[name].colour, transform=axes.get_yaxis_transform(),
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, score and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("runs/captions"), help="folder of runs")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS])
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=[*SEEDS])
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page")
    parser.add_argument("--tiny", action="store_true", help="tiny models and data, for tests")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for name in options.systems:
            finish(name, seed, options.output, is_tiny=options.tiny)
    results = all_results(options.output)
    if len(results) == len(SYSTEMS) * len(SEEDS):
        text = table(results)
        rewrite_block(options.docs / "captioning.md", "captions", f"{FIGURE}\n\n{text}")
        draw(results, options.docs / "figures/captions-attention.png")
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
