"""Train seven translation systems at one budget of FLOPs, and score them and their ensembles.

    python benchmarks/table2.py DATA                          (six hours of one core)
    python benchmarks/table2.py DATA --systems gnmt --seeds 1

DATA has train.en.gz, val.en.gz and test_2016_flickr.en.gz of Multi30k, and the same in German. The
systems are those of table 2 of Vaswani et al. (2017). Repeat the command to continue: finished
trainings are skipped, and interrupted trainings are resumed. Several commands may work on one
output folder at a time. When all trainings are finished, the script writes the figure and the
tables of docs/systems.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from types import FrameType

from axes import style_axes
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from path_length import measure_path
from torch import nn
from whole_runs import (
    PROCESSES,
    Usage,
    last_scores,
    measure_command,
    rewrite_block,
    run_command,
)

from regard.cli import train
from regard.data.text.tokenizer import Tokenizer
from regard.files import LOG, locked, whole
from regard.pipeline.cost import cost_of
from regard.pipeline.load import load
from regard.tasks.cost import Cost, num_parameters
from regard.viewing.curve import read_log
from regard.viewing.figure import QUIET, empty_figure, write

ROOT = Path(__file__).parents[1]
BUDGET = 8e13
"""FLOPs of a training."""
SEEDS = (1, 2, 3)
WARMUP = 0.1
"""Share of the updates over which the learning rate rises."""
NUM_VALIDATIONS = 5
CHARACTERS = "128"
"""Largest size of ByteNet's vocabularies. Multi30k has fewer characters."""
REWARD_SHARE, REWARD_TOKENS, NUM_SAMPLES = 0.2, 512, 5
"""Share of the budget for rewards, tokens of a batch and samples of a sentence."""

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

COMMON = {
    "--data.vocabulary-size": "5000",
    "--data.batch-tokens": "2048",
    "--training.schedule": "linear",
    "--training.average": "3",
}
REWARDS = {
    "--training.objective": "expected_reward",
    "--training.samples": str(NUM_SAMPLES),
    "--training.learning-rate": "0.0002",
    "--data.batch-tokens": str(REWARD_TOKENS),
    "--model.dropout": "0",
}
TINY = {
    "--data.vocabulary-size": "200",
    "--data.batch-tokens": "512",
    "--model.size": "16",
    "--search.max-length": "10",
}
"""Options of the tests."""
TINY_BUDGET, TINY_PAIRS = 4e7, 100


@dataclass(frozen=True)
class System:
    """Translation system: its recipe and the changes to it."""

    title: str
    recipe: str
    options: dict[str, str]
    layers: str
    path: str
    """Formula of the path between two of n source positions."""
    published: str
    """BLEU of one model and of an ensemble on the test of WMT 2014, English to German and English
    to French (Vaswani et al. 2017, table 2; GNMT without rewards: Wu et al. 2016, table 6)."""
    has_rewards: bool = False


GNMT = {"--model.size": "160"}
SYSTEMS = {
    "bytenet": System(
        "ByteNet",
        "multi30k-bytenet",
        {"--data.vocabulary-size": CHARACTERS, "--data.batch-tokens": "4096"},
        "10 + 10 dilated convolutions of width 3",
        "log₂ n",
        "23.75, –; –",
    ),
    "deep-att": System(
        "Deep-Att",
        "multi30k-deep-att",
        {"--model.size": "144"},
        "2 x 5 + 4 LSTM",
        "n - 1",
        "–, 39.2; –, 40.4",
    ),
    "gnmt": System("GNMT", "multi30k-gnmt", GNMT, "4 + 4 LSTM", "n - 1", "24.67, 38.95; –"),
    "gnmt-rewards": System(
        "GNMT + rewards",
        "multi30k-gnmt",
        GNMT,
        "4 + 4 LSTM",
        "n - 1",
        "24.6, 39.92; 26.30, 41.16",
        has_rewards=True,
    ),
    "convs2s": System(
        "ConvS2S",
        "multi30k-convs2s",
        {"--model.size": "208"},
        "4 + 4 gated convolutions of width 3",
        "n - 1",
        "25.16, 40.46; 26.36, 41.29",
    ),
    "experts": System(
        "mixture of experts",
        "multi30k-transformer-experts",
        {},
        "4 + 4 Transformer, 2 of 8 experts",
        "1",
        "26.03, 40.56; –",
    ),
    "transformer": System(
        "Transformer",
        "multi30k-transformer",
        {
            "--model.size": "192",
            "--model.encoder.feed-forward": "384",
            "--model.decoder.feed-forward": "384",
        },
        "4 + 4 Transformer",
        "1",
        "27.3, 38.1; –",
    ),
}


@dataclass(frozen=True)
class Settings:
    """Data, output and budget of all trainings."""

    data: Path
    output: Path
    budget: float
    is_tiny: bool = False

    def folder(self, system: str, seed: int | str) -> Path:
        """Return the folder of a training, or of the ensemble of all seeds."""
        return self.output / f"{system}-{seed}"

    def test(self) -> list[str]:
        """Return the arguments of an evaluation on the test pairs."""
        source, target = (str(self.data / f"test_2016_flickr.{side}.gz") for side in ("en", "de"))
        return [source, "--target-path", target]


ENSEMBLE = "ensemble"
"""Seed of the rows of ensembles."""


@dataclass(frozen=True)
class Result:
    """Row of results.tsv. Resources are those of the training with its validations. An ensemble has
    the sum of its members' FLOPs and times, and their largest memory."""

    system: str
    seed: int | str
    bleu: float
    parameters: int
    embeddings: int
    """Parameters of the embeddings, which are part of `parameters`."""
    flops: float
    updates: int
    cpu_seconds: float
    wall_seconds: float
    megabytes: float
    evaluation_seconds: float
    """CPU seconds of the evaluation."""
    path: str
    """Measured path between two source positions."""
    path_positions: int
    """Number of positions of the sentence whose path was measured."""


@dataclass(frozen=True)
class Phase:
    """Training of a part of the budget: its options, and the FLOPs of an update."""

    name: str
    recipe: str
    options: dict[str, str]
    updates: int
    flops_of_update: float

    @property
    def flops(self) -> float:
        return self.updates * self.flops_of_update


# Trainings


def phases_of(system: System, seed: int, settings: Settings) -> list[Phase]:
    """Return the phases that spend the budget. Learning rates are scaled to the length of a phase,
    which has a round number of updates."""
    options = {
        **_files(settings.data),
        **COMMON,
        **system.options,
        **(TINY if settings.is_tiny else {}),
        "--training.seed": str(seed),
    }
    share = 1 - REWARD_SHARE if system.has_rewards else 1.0
    cost = _cost(system.recipe, options)
    likelihood = _phase(
        "likelihood", system.recipe, options, share * settings.budget, flops_of_update(cost)
    )
    if not system.has_rewards:
        return [likelihood]
    options = options | REWARDS
    rewards = _phase(
        "rewards",
        system.recipe,
        options,
        REWARD_SHARE * settings.budget,
        flops_of_rewarded_update(_cost(system.recipe, options)),
    )
    return [likelihood, rewards]


def flops_of_update(cost: Cost) -> float:
    """Return the FLOPs of an update with the likelihood. ValueError if they are unknown."""
    if cost.update is None:
        raise ValueError("expected a recipe with a number of tokens in a batch")
    return cost.update


def flops_of_rewarded_update(cost: Cost) -> float:
    """Return the FLOPs of an update with the expected reward.

    Each sample costs two FLOPs for every weight to draw it and six to train on it, with a pass of
    the encoder both times, and the likelihood of the reference costs six. Samples are taken to be
    as long as references."""
    return flops_of_update(cost) * (NUM_SAMPLES * (2 + 6) + 6) / 6


def _phase(name: str, recipe: str, options: dict[str, str], budget: float, flops: float) -> Phase:
    updates = max(1, round(budget / flops))
    options = options | {
        "--training.updates": str(updates),
        "--training.warmup": str(round(WARMUP * updates)),
        "--training.validate-every": str(math.ceil(updates / NUM_VALIDATIONS)),
    }
    return Phase(name, recipe, options, updates, flops)


def _files(data: Path) -> dict[str, str]:
    return {
        "--data.path": str(data / "train.en.gz"),
        "--data.target-path": str(data / "train.de.gz"),
        "--data.dev-path": str(data / "val.en.gz"),
        "--data.dev-target-path": str(data / "val.de.gz"),
    }


def _cost(recipe: str, options: dict[str, str]) -> Cost:
    return cost_of(train.parse([recipe, *_words(options)], lambda _: None).experiment)


def _words(options: dict[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


def finish(name: str, seed: int, settings: Settings) -> None:
    """Train and score a system with one seed, unless its result is saved. SystemExit if a command
    fails; resources of unfinished trainings are saved too."""
    folder = settings.folder(name, seed)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if (folder / "result.json").exists():
            return
        system = SYSTEMS[name]
        phases = phases_of(system, seed, settings)
        runs = [folder / phase.name for phase in phases]
        for number, (phase, run) in enumerate(zip(phases, runs, strict=True)):
            options = phase.options
            if number:
                options = options | {"--training.initial-run": str(runs[number - 1])}
            train_phase(phase, options, run)
        evaluation = run_command("evaluate", str(runs[-1]), *settings.test())
        sessions = [usage for run in runs for usage in _sessions(run)]
        model = load(runs[-1])
        positions = _mean_length(model.tokenizers.source, settings.data)
        is_recurrent = model.experiment.model.encoder.kind == "recurrent"
        path = measure_path(model.model.encoder, positions, is_recurrent=is_recurrent)
        result = Result(
            system=name,
            seed=seed,
            bleu=last_scores(runs[-1])["BLEU"],
            parameters=num_parameters(model.model),
            embeddings=_num_embeddings(model.model),
            flops=sum(phase.flops for phase in phases),
            updates=sum(phase.updates for phase in phases),
            cpu_seconds=sum(usage.cpu_seconds for usage in sessions),
            wall_seconds=sum(usage.wall_seconds for usage in sessions),
            megabytes=max(usage.megabytes for usage in sessions),
            evaluation_seconds=evaluation.cpu_seconds,
            path=str(path),
            path_positions=positions,
        )
        _save(folder, result)
    print(f"{name}, seed {seed}: BLEU {result.bleu:.1f}", flush=True)


def train_phase(phase: Phase, options: dict[str, str], run: Path) -> None:
    """Train or resume a phase, unless it is finished. The resources of each session are saved while
    it runs, because a session may be killed. SystemExit if the training fails."""
    if (run / "finished").exists():
        return
    is_resumed = (run / "config.yaml").exists()
    command = ["train", phase.recipe, "--output", str(run), *_words(options)]
    if is_resumed:
        command.append("--resume")
    session = run.with_name(f"{run.name}-session-{len(_sessions(run)) + 1}.json")

    def save(usage: Usage) -> None:
        with whole(session) as unfinished:
            unfinished.write_text(json.dumps(asdict(usage), indent=1), encoding="utf8")

    usage = measure_command(*command, on_usage=save)
    if usage.status:
        raise SystemExit(f"{run}: status {usage.status}: {usage.last_line}")
    (run / "finished").touch()


def _sessions(run: Path) -> list[Usage]:
    files = sorted(run.parent.glob(f"{run.name}-session-*.json"))
    return [Usage(**json.loads(file.read_text(encoding="utf8"))) for file in files]


def _mean_length(tokenizer: Tokenizer, data: Path) -> int:
    """Return the mean number of tokens in a source of the dev pairs."""
    with gzip.open(data / "val.en.gz", "rt", encoding="utf8") as file:
        return round(statistics.fmean(len(tokenizer.encode(line.strip()).ids) for line in file))


def _num_embeddings(model: nn.Module) -> int:
    tables = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    return sum(table.numel() for table in tables)


def _save(folder: Path, result: Result) -> None:
    with whole(folder / "result.json") as unfinished:
        unfinished.write_text(json.dumps(asdict(result), indent=1), encoding="utf8")


def read_result(folder: Path) -> Result | None:
    """Return the result of a folder; None before it is finished."""
    try:
        return Result(**json.loads((folder / "result.json").read_text(encoding="utf8")))
    except FileNotFoundError:
        return None


def combine(name: str, settings: Settings) -> None:
    """Score the ensemble of all seeds of a system, unless a member is not finished or the result is
    saved."""
    members = [read_result(settings.folder(name, seed)) for seed in SEEDS]
    results = [member for member in members if member is not None]
    if len(results) < len(SEEDS):
        return
    folder = settings.folder(name, ENSEMBLE)
    folder.mkdir(exist_ok=True)
    with locked(folder):
        if (folder / "result.json").exists():
            return
        phase = "rewards" if SYSTEMS[name].has_rewards else "likelihood"
        first, *others = [str(settings.folder(name, seed) / phase) for seed in SEEDS]
        usage = run_command("evaluate", first, *settings.test(), "--ensemble", *others)
        bleu = last_scores(Path(first))["BLEU"]
        _save(
            folder,
            replace(
                results[0],
                seed=ENSEMBLE,
                bleu=bleu,
                parameters=sum(result.parameters for result in results),
                embeddings=sum(result.embeddings for result in results),
                flops=sum(result.flops for result in results),
                cpu_seconds=sum(result.cpu_seconds for result in results),
                wall_seconds=sum(result.wall_seconds for result in results),
                megabytes=max(result.megabytes for result in results),
                evaluation_seconds=usage.cpu_seconds,
            ),
        )
    print(f"{name}, ensemble of {len(SEEDS)}: BLEU {bleu:.1f}", flush=True)


# Tables


def all_results(settings: Settings) -> list[Result]:
    """Return all results in the output folder, in the order of systems and seeds."""
    folders = (settings.folder(name, seed) for name in SYSTEMS for seed in (*SEEDS, ENSEMBLE))
    results = map(read_result, folders)
    return [result for result in results if result is not None]


def write_results(settings: Settings) -> list[Result]:
    """Write results.tsv with all results in the output folder, and return them."""
    with locked(settings.output), whole(settings.output / "results.tsv") as unfinished:
        results = all_results(settings)
        names = [field.name for field in fields(Result)]
        rows = [[str(value) for value in asdict(result).values()] for result in results]
        text = "".join("\t".join(row) + "\n" for row in [names, *rows])
        unfinished.write_text(text, encoding="utf8")
    return results


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


# Figure


Curves = list[tuple[list[float], list[float]]]
"""FLOPs and dev BLEU of every validation, for each seed of a system."""


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


# Command


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, score and report; return 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the files of Multi30k")
    parser.add_argument("--output", type=Path, default=Path("runs/table2"), help="folder of runs")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS])
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=[*SEEDS])
    parser.add_argument("--budget", type=float, help=f"FLOPs of a training [{BUDGET:g}]")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page")
    parser.add_argument("--tiny", action="store_true", help="tiny models and data, for tests")
    options = parser.parse_args(arguments)
    budget = options.budget or (TINY_BUDGET if options.tiny else BUDGET)
    data = first_pairs(options.data, options.output / "data") if options.tiny else options.data
    settings = Settings(data, options.output, budget, options.tiny)
    check_budget(settings)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _terminate)
    failures = finish_all(
        [(n, s) for s in options.seeds for n in options.systems], settings, options.jobs
    )
    for name in options.systems:
        combine(name, settings)
    results = write_results(settings)
    if len(results) == len(SYSTEMS) * (len(SEEDS) + 1):
        rewrite_block(options.docs / "systems.md", "table2", f"{FIGURE}\n\n{tables(results)}")
        curves = {name: read_curves(name, settings) for name in SYSTEMS}
        draw(results, curves, options.docs / "figures/table2.png")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def finish_all(
    trainings: Sequence[tuple[str, int]], settings: Settings, num_jobs: int
) -> list[str]:
    """Finish these trainings, several at a time, and return the messages of those that failed."""

    def attempt(training: tuple[str, int]) -> str | None:
        try:
            finish(*training, settings)
        except SystemExit as error:
            return str(error)
        return None

    pool = ThreadPoolExecutor(num_jobs)
    try:
        return [message for message in pool.map(attempt, trainings) if message]
    finally:
        pool.shutdown(cancel_futures=True)


def check_budget(settings: Settings) -> None:
    """Save the budget of an output folder. SystemExit if its trainings have another budget."""
    settings.output.mkdir(parents=True, exist_ok=True)
    file = settings.output / "budget.json"
    with locked(settings.output):
        if not file.exists():
            file.write_text(json.dumps(settings.budget), encoding="utf8")
        budget = json.loads(file.read_text(encoding="utf8"))
    if budget != settings.budget:
        raise SystemExit(
            f"{settings.output} has trainings of {budget:g} FLOPs, got a budget of "
            f"{settings.budget:g}: name another folder with --output"
        )


def first_pairs(data: Path, output: Path) -> Path:
    """Write the first pairs of each file to a folder, and return the folder."""
    output.mkdir(parents=True, exist_ok=True)
    for split, number in (("train", TINY_PAIRS), ("val", 10), ("test_2016_flickr", 10)):
        for side in ("en", "de"):
            name = f"{split}.{side}.gz"
            if not (output / name).exists():
                with gzip.open(data / name, "rt", encoding="utf8") as file:
                    text = "".join(islice(file, number))
                with gzip.open(output / name, "wt", encoding="utf8") as file:
                    file.write(text)
    return output


def _terminate(number: int, frame: FrameType | None) -> None:
    """End the commands that run now, which save their trainings, and the script."""
    del frame
    for process in [*PROCESSES]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
