"""Train seven translation systems at one budget of FLOPs, and score them and their ensembles.

    python benchmarks/table2.py DATA                          (three and a half hours of one core)
    python benchmarks/table2.py DATA --systems gnmt --seeds 1
    python benchmarks/table2.py DATA --systems transformer-128    (a control, not in the table)

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields, replace
from itertools import islice
from pathlib import Path
from types import FrameType

from path_length import measure_path
from table2_report import FIGURE, draw, read_curves, tables
from table2_systems import (
    BUDGET,
    BY_NAME,
    ENSEMBLE,
    SEEDS,
    SYSTEMS,
    Result,
    Settings,
    all_results,
    phases_of,
    read_result,
    words_of,
)
from torch import nn
from whole_runs import (
    PROCESSES,
    finish_training,
    last_scores,
    rewrite_block,
    run_command,
    training_usages,
)

from regard.data.text.tokenizer import Tokenizer
from regard.pipeline.load import load
from regard.storage.files import locked, whole
from regard.tasks.training.cost import num_parameters

ROOT = Path(__file__).parents[1]
TINY_BUDGET = 4e7
"""Budget in tests."""
FILES = tuple(
    (f"{split}.{side}.gz", number)
    for split, number in (("train", 100), ("val", 10), ("test_2016_flickr", 10))
    for side in ("en", "de")
)
"""Files of the data, with their number of lines in tests."""


def finish(name: str, seed: int, settings: Settings) -> None:
    """Train and score a system with one seed, unless its result is saved. SystemExit if a command
    fails; resources of unfinished trainings are saved too."""
    folder = settings.folder(name, seed)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if (folder / "result.json").exists():
            return
        system = BY_NAME[name]
        phases = phases_of(system, seed, settings)
        runs = [folder / phase.name for phase in phases]
        for number, (phase, run) in enumerate(zip(phases, runs, strict=True)):
            options = phase.options
            if number:
                options = options | {"--training.initial-run": str(runs[number - 1])}
            command = ["train", phase.recipe, "--output", str(run), *words_of(options)]
            finish_training(command, run)
        evaluation = run_command("evaluate", str(runs[-1]), *settings.test())
        sessions = [usage for run in runs for usage in training_usages(run)]
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
        phase = "rewards" if BY_NAME[name].has_rewards else "likelihood"
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


def write_results(settings: Settings) -> list[Result]:
    """Write results.tsv with all results in the output folder, and return them."""
    with locked(settings.output), whole(settings.output / "results.tsv") as unfinished:
        results = all_results(settings)
        names = [field.name for field in fields(Result)]
        rows = [[str(value) for value in asdict(result).values()] for result in results]
        text = "".join("\t".join(row) + "\n" for row in [names, *rows])
        unfinished.write_text(text, encoding="utf8")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, score and report; return 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the files of Multi30k")
    parser.add_argument("--output", type=Path, default=Path("runs/table2"), help="folder of runs")
    parser.add_argument("--systems", nargs="+", choices=BY_NAME, default=[*SYSTEMS])
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=[*SEEDS])
    parser.add_argument("--budget", type=float, help=f"FLOPs of a training [{BUDGET:g}]")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page")
    parser.add_argument("--tiny", action="store_true", help="tiny models and data, for tests")
    options = parser.parse_args(arguments)
    budget = options.budget
    if budget is None:
        budget = TINY_BUDGET if options.tiny else BUDGET
    if not 0 < budget < math.inf:
        parser.error(f"argument --budget: expected a number above 0, got {budget:g}")
    if options.jobs < 1:
        parser.error(f"argument --jobs: expected at least 1, got {options.jobs}")
    if missing := [name for name, _ in FILES if not (options.data / name).is_file()]:
        parser.error(
            f"{options.data} has no {', '.join(missing)}: name the folder with the files of "
            "Multi30k"
        )
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
    results = [result for result in results if result.system in SYSTEMS]
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
    for name, number in FILES:
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
