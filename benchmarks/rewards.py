"""Train with rewards, and for as many updates with the likelihood, from the same trained models.

    python benchmarks/rewards.py --tasks multi30k --data DATA   (5 hours of one core)
    python benchmarks/rewards.py --tasks scenes                 (two hours of one core)

DATA has train.en.gz, val.en.gz and test_2016_flickr.en.gz of Multi30k, and the same in German. A
base model of each seed is trained first. Every system continues it with the same data, batches,
learning rates and number of updates. They differ in the objective alone; `likelihood with dropout`
has the dropout of the base model too. Repeat the command to continue: finished trainings are
skipped, and an interrupted training is resumed. Differences are paired: the score of a system minus
that of `likelihood` with the same seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from whole_runs import finish_training, last_scores, run_command, training_usages

from regard.storage.files import LOG, locked, whole
from regard.viewing.curve import read_log

BASE, CONTROL = "base", "likelihood"
SEEDS = (1, 2, 3)
DROPOUT = {"--model.dropout": "0.3"}
"""Dropout of the recipe multi30k-gnmt."""
Scores = Callable[[Path], dict[str, float]]


@dataclass(frozen=True)
class Task:
    """Recipes of the base model and of its continuation, and the options of each system."""

    base: str
    rewards: str
    systems: Mapping[str, dict[str, str]]
    options: dict[str, str]
    """Options of all trainings."""
    scores: Scores
    """Function that evaluates a run."""
    tiny: dict[str, str]
    """Options of all trainings in tests."""

    def command(self, system: str, seed: int, folder: Path, *, is_tiny: bool) -> list[str]:
        """Return the command that trains a system."""
        options = {**self.options, "--training.seed": str(seed)}
        recipe = self.base
        if system != BASE:
            recipe = self.rewards
            options |= {"--training.initial-run": str(folder / BASE), **self.systems[system]}
            if "--data.path" in options:
                options["--data.tokenizers-path"] = str(folder / BASE)
        if is_tiny:
            options |= self.tiny | {"--training.updates": "2"}
        words = [word for option in options.items() for word in option]
        return ["train", recipe, "--output", str(folder / system), *words]


def tasks_of(data: Path | None) -> dict[str, Task]:
    """Return the tasks; only that on generated scenes without the folder of Multi30k."""
    tasks = {
        "scenes": Task(
            base="shapes-caption",
            rewards="shapes-caption-rewards",
            systems={
                CONTROL: {"--training.objective": "likelihood"},
                "self_critical": {},
            },
            options={},
            scores=scene_scores,
            tiny={
                "--data.synthetic-size": "60",
                "--data.dev-size": "10",
                "--data.test-size": "10",
                "--data.image-size": "16",
                "--model.size": "8",
            },
        )
    }
    if data is None:
        return tasks
    source, target = (str(data / f"test_2016_flickr.{side}.gz") for side in ("en", "de"))
    translation = Task(
        base="multi30k-gnmt",
        rewards="multi30k-gnmt-rewards",
        systems={
            CONTROL: {"--training.objective": "likelihood"},
            "likelihood with dropout": {"--training.objective": "likelihood", **DROPOUT},
            "expected_reward": {},
            "minimum_risk": {"--training.objective": "minimum_risk"},
        },
        options={
            "--data.path": str(data / "train.en.gz"),
            "--data.target-path": str(data / "train.de.gz"),
            "--data.dev-path": str(data / "val.en.gz"),
            "--data.dev-target-path": str(data / "val.de.gz"),
        },
        scores=lambda run: translation_scores(run, source, target),
        tiny={
            "--data.vocabulary-size": "100",
            "--model.size": "8",
            "--search.max-length": "8",
        },
    )
    return {"multi30k": translation, **tasks}


def translation_scores(run: Path, source: str, target: str) -> dict[str, float]:
    """Return BLEU and chrF with the recipe's beam, and BLEU of greedy translations."""
    run_command("evaluate", str(run), source, "--target-path", target, "--beam", "1")
    greedy = last_scores(run)["BLEU"]
    run_command("evaluate", str(run), source, "--target-path", target)
    scores = last_scores(run)
    return {"BLEU": scores["BLEU"], "BLEU (greedy)": greedy, "chrF": scores["chrF"]}


def scene_scores(run: Path) -> dict[str, float]:
    """Return CIDEr-D, and the percentages of true captions: of all scenes, and of one shape."""
    run_command("evaluate", str(run))
    scores = last_scores(run)
    return {name: scores[name] for name in ("CIDEr-D", "true", "true, 1 shape")}


@dataclass(frozen=True)
class Result:
    """Line of results.tsv."""

    task: str
    system: str
    seed: int
    scores: dict[str, float]
    reward: float | None
    """Mean reward of the samples in the last line of the log; None without rewards."""
    cpu_seconds: float
    """CPU seconds of the training, with its validations."""
    megabytes: float
    """Peak memory of the training."""


def finish(name: str, task: Task, seed: int, output: Path, *, is_tiny: bool) -> None:
    """Train and score the base model and all systems of a seed, as far as their results are not
    saved."""
    folder = output / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for system in (BASE, *task.systems):
        run = folder / system
        file = folder / f"{system}.json"
        with locked(folder):
            if not file.exists():
                finish_training(task.command(system, seed, folder, is_tiny=is_tiny), run)
                result = scored(name, system, seed, task.scores, run)
                with whole(file) as unfinished:
                    unfinished.write_text(json.dumps(asdict(result), indent=1), encoding="utf8")
        result = read_result(file)
        shown = ", ".join(f"{metric} {value:.2f}" for metric, value in result.scores.items())
        print(f"{name}, {system}, seed {seed}: {shown}", flush=True)


def read_result(file: Path) -> Result:
    return Result(**json.loads(file.read_text(encoding="utf8")))


def all_results(output: Path) -> list[Result]:
    """Return the results of all finished seeds, of this command and of others, in the order of
    tasks, systems and seeds."""
    files = [
        folder / f"{system}.json"
        for name, task in tasks_of(Path()).items()
        for system in (BASE, *task.systems)
        for folder in sorted(output.glob(f"{name}-*"))
        if all((folder / f"{each}.json").exists() for each in (BASE, *task.systems))
    ]
    return [read_result(file) for file in files]


def write_results(output: Path) -> str:
    """Write results.tsv and table.md, and return the table."""
    results = all_results(output)
    rows = [[json.dumps(value) for value in asdict(result).values()] for result in results]
    columns = [field.name for field in fields(Result)]
    lines = ["\t".join(row) + "\n" for row in (columns, *rows)]
    text = table(results)
    for name, content in (("results.tsv", "".join(lines)), ("table.md", text)):
        with whole(output / name) as unfinished:
            unfinished.write_text(content, encoding="utf8")
    return text


def scored(name: str, system: str, seed: int, scores: Scores, run: Path) -> Result:
    """Evaluate a finished run."""
    sessions = training_usages(run)
    measures = [record.get("measures") or {} for record in read_log(run / LOG)]
    rewards = [values["reward"] for values in measures if "reward" in values]
    return Result(
        name,
        system,
        seed,
        scores(run),
        rewards[-1] if rewards else None,
        sum(session.cpu_seconds for session in sessions),
        max(session.megabytes for session in sessions),
    )


def table(results: Sequence[Result]) -> str:
    """Return the scores of each system in Markdown: mean and standard deviation, and the paired
    difference from the likelihood."""
    lines = []
    for name in dict.fromkeys(result.task for result in results):
        rows = [result for result in results if result.task == name]
        metrics = [metric for metric in rows[0].scores if all(metric in r.scores for r in rows)]
        header = [name, *(f"{metric} | minus {CONTROL}" for metric in metrics)]
        columns = [*header, "reward of samples", "CPU minutes", "MB"]
        lines += ["| " + " | ".join(columns) + " |", "|---" * (2 * len(metrics) + 4) + "|"]
        control = {row.seed: row for row in rows if row.system == CONTROL}
        for system in dict.fromkeys(row.system for row in rows):
            runs = [row for row in rows if row.system == system]
            cells = [system]
            for metric in metrics:
                values = [run.scores[metric] for run in runs]
                differences = [
                    value - control[run.seed].scores[metric]
                    for value, run in zip(values, runs, strict=True)
                ]
                cells += [spread(values), "" if system == CONTROL else spread(differences, "+")]
            rewards = [run.reward for run in runs if run.reward is not None]
            minutes = statistics.fmean(run.cpu_seconds for run in runs) / 60
            cells += [
                f"{statistics.fmean(rewards):.3f}" if rewards else "",
                f"{minutes:.1f}",
                f"{max(run.megabytes for run in runs):,.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def spread(values: Sequence[float], sign: str = "") -> str:
    """Return mean, standard deviation over seeds, and all values."""
    shown = ", ".join(f"{value:{sign}.2f}" for value in values)
    if len(values) < 2:
        return shown
    return f"{statistics.fmean(values):{sign}.2f} ± {statistics.stdev(values):.2f} ({shown})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, score and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the files of Multi30k")
    parser.add_argument("--output", type=Path, default=Path("runs/rewards"), help="folder of runs")
    parser.add_argument("--tasks", nargs="+", choices=("multi30k", "scenes"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[*SEEDS])
    parser.add_argument("--tiny", action="store_true", help="tiny models and data, for tests")
    options = parser.parse_args(arguments)
    tasks = tasks_of(options.data)
    names = options.tasks or [*tasks]
    if "multi30k" in names and options.data is None:
        parser.error("the task multi30k needs --data: name the folder of its files")
    for seed in options.seeds:
        for name in names:
            finish(name, tasks[name], seed, options.output, is_tiny=options.tiny)
    with locked(options.output):
        text = write_results(options.output)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
