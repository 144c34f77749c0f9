"""Comparison of runs on the same pairs: scores over seeds, significance, different outputs."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import recipes
from regard.config import ClassificationDataConfig, Experiment
from regard.data.examples import Pair
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from regard.metrics.significance import Comparison, compare_texts, compare_values
from regard.metrics.text import chrf
from regard.pipeline import evaluate
from regard.pipeline.load import load
from regard.runs.ensemble import is_ensemble, members_of, warn_of_other_data
from regard.runs.folder import RunFolder
from regard.runs.results import key_of, saved_evaluations
from regard.runs.sweep_record import SWEEP
from regard.runtime.progress import OnProgress
from regard.storage.files import resolved, write_csv
from regard.studies.sweep import SEEDS, TABLE, is_complete
from regard.tasks.evaluation import Evaluation, EvaluationOptions, ScoredOutput, is_informative

IGNORED = (
    *("name", "about", *SEEDS, "training.device", "training.track", "training.hours"),
    *("training.log_every", "training.log_by", "search.device"),
)
"""Fields in which runs of one system may differ."""
MAX_FIELDS = 2
"""Largest number of differing fields in the name of a system."""


@dataclass(frozen=True)
class System:
    """Runs that differ only in seeds, with their evaluations on the same pairs."""

    name: str
    runs: tuple[Path, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(score.name for score in self.evaluations[0].scores)

    @property
    def num_words(self) -> float:
        """Mean number of words of the references."""
        return self.evaluations[0].num_words

    @property
    def shown_metrics(self) -> tuple[str, ...]:
        """Metrics that are informative for these references; all if none is."""
        shown = (name for name in self.metrics if is_informative(name, self.num_words))
        return tuple(shown) or self.metrics

    def scores(self, metric: str) -> list[float]:
        """Return the score of each run on a metric."""
        return [
            score.value
            for evaluation in self.evaluations
            for score in evaluation.scores
            if score.name == metric
        ]

    def mean(self, metric: str) -> float:
        return statistics.fmean(self.scores(metric))

    def deviation(self, metric: str) -> float | None:
        """Return the standard deviation over the runs; None for one run."""
        scores = self.scores(metric)
        return statistics.stdev(scores) if len(scores) > 1 else None

    @property
    def median_run(self) -> int:
        """Number of the run with the median score on the first metric that is shown; the lower of
        two."""
        scores = self.scores(self.shown_metrics[0])
        order = sorted(range(len(scores)), key=scores.__getitem__)
        return order[(len(order) - 1) // 2]

    @property
    def outputs(self) -> tuple[ScoredOutput, ...]:
        """Outputs of the run with the median score."""
        return self.evaluations[self.median_run].outputs


@dataclass(frozen=True)
class DifferentOutput:
    """Source whose outputs by two systems differ, with the gain of the second one."""

    source: str
    references: tuple[str, ...]
    system: str
    baseline_text: str
    text: str
    gain: float
    """Difference of the scores of the two outputs: chrF, correctness in per cent, or error."""


@dataclass(frozen=True)
class Study:
    """Systems on the same pairs; the first is the baseline of the comparisons."""

    systems: tuple[System, ...]
    comparisons: tuple[Comparison, ...]
    differences: tuple[DifferentOutput, ...]

    @property
    def incomplete(self) -> tuple[Path, ...]:
        """Runs with an incomplete training."""
        runs = (RunFolder(run) for system in self.systems for run in system.runs)
        return tuple(run.path for run in runs if run.log.exists() and not is_complete(run))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each system and metric, as in the CSV file."""
        for system in self.systems:
            for metric in system.metrics:
                test = next(
                    (c for c in self.comparisons if (c.system, c.metric) == (system.name, metric)),
                    None,
                )
                yield {
                    "system": system.name,
                    "metric": metric,
                    "runs": len(system.runs),
                    "mean": system.mean(metric),
                    "deviation": system.deviation(metric),
                    "p_bootstrap": test and test.p_bootstrap,
                    "p_randomisation": test and test.p_randomisation,
                }

    def shown_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the metrics that are informative for these references."""
        return (row for row in self.rows() if row["metric"] in self.systems[0].shown_metrics)

    def save(self, path: Path) -> None:
        """Write the rows as a CSV file."""
        rows = list(self.rows())
        write_csv(path, list(rows[0]), rows)


def compare(
    runs: Sequence[Path],
    data: Path | None = None,
    *,
    num_samples: int = 1000,
    num_differences: int = 10,
    on_progress: OnProgress | None = None,
) -> Study:
    """Compare runs on the pairs of a file, by default on the test split that they share. The first
    run's system is the baseline.

    Scores are taken from the results.json of a run if it has them, and are saved there otherwise.
    Warn of runs that were trained on other data.
    UserError for fewer than two runs, for runs of different tasks, and for different test splits.
    """
    folders = _folders(runs)
    experiments = [folder.experiment() for folder in folders]
    _check_tasks(folders, experiments)
    if data is None:
        _check_tests(folders)
    warn_of_other_data([folder.path for folder in folders])
    groups: dict[str, list[int]] = {}
    for number, experiment in enumerate(experiments):
        groups.setdefault(str(sorted(_fields(experiment).items())), []).append(number)
    names = _names(
        [[folders[n] for n in group] for group in groups.values()],
        [_fields(experiments[group[0]]) for group in groups.values()],
    )
    systems = tuple(
        System(
            name,
            tuple(folders[n].path for n in group),
            tuple(_evaluation(folders[n], data or folders[n].test, on_progress) for n in group),
        )
        for name, group in zip(names, groups.values(), strict=True)
    )
    _check_sources(systems)
    return Study(
        systems,
        _comparisons(systems, experiments[0], num_samples),
        _differences(systems, experiments[0], num_differences),
    )


def _folders(paths: Sequence[Path]) -> list[RunFolder]:
    """Return distinct runs, with all complete runs of a sweep, or the members of an ensemble, in
    place of its folder. UserError for fewer than two."""
    runs: dict[Path, RunFolder] = {}
    for path in paths:
        is_sweep = _has_several_runs(path)
        for run in map(RunFolder, _runs_of(path) if is_sweep else [path]):
            if not is_sweep or is_complete(run):
                runs.setdefault(resolved(run.path), run)
    if len(runs) < 2:
        names = ", ".join(str(run.path) for run in runs.values()) or "none"
        raise UserError(f"expected two or more different runs to compare, got {names}")
    return list(runs.values())


def _has_several_runs(folder: Path) -> bool:
    """Return whether a folder is that of a sweep or an ensemble."""
    return (folder / SWEEP).exists() or is_ensemble(folder)


def _runs_of(sweep: Path) -> list[Path]:
    """Return the members of an ensemble, or the files of a sweep: those that its table names in
    this order, then the others."""
    if is_ensemble(sweep):
        return list(members_of(sweep))
    table = sweep / TABLE
    rows = csv.DictReader(io.StringIO(table.read_text("utf-8"))) if table.exists() else []
    names = [str(row.get("run")) for row in rows]
    return [*(sweep / name for name in names), *sorted(sweep.iterdir())]


def _check_tasks(folders: Sequence[RunFolder], experiments: Sequence[Experiment]) -> None:
    tasks = [experiment.data.task for experiment in experiments]
    for folder, task in zip(folders, tasks, strict=True):
        if task != tasks[0]:
            raise UserError(
                f"{folders[0].path} has data.task {tasks[0]} and {folder.path} {task}: expected "
                "runs of one task"
            )


def _check_tests(folders: Sequence[RunFolder]) -> None:
    """Raise a UserError unless all runs have the same test split."""
    for folder in folders:
        if not folder.test.exists():
            raise UserError(
                f"{folder.path} has no held-out test split: add a file of pairs after the runs"
            )
        if folder.test.read_bytes() != folders[0].test.read_bytes():
            raise UserError(
                f"{folders[0].path} and {folder.path} have different test splits: add a file "
                "of pairs after the runs, or train with the same data.seed"
            )


def _fields(experiment: Experiment) -> dict[str, str]:
    """Return the fields in which two systems may differ, by full name."""
    fields = recipes.flat(asdict(experiment))
    return {
        name: str(value)
        for name, value in fields
        if name not in IGNORED and not name.endswith("path")
    }


def _names(groups: Sequence[Sequence[RunFolder]], fields: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a name for each system: the fields in which it differs, or its folder."""
    known = {name for values in fields for name in values}
    columns = {name: tuple(values.get(name) for values in fields) for name in known}
    varied: dict[str, tuple[str | None, ...]] = {}
    for name in sorted(known, key=lambda name: (name.count("."), name)):
        is_inherited = any(
            name.startswith(above.rpartition(".")[0] + ".") and column == columns[name]
            for above, column in varied.items()
            if above.count(".") < name.count(".")
        )
        if len(set(columns[name])) > 1 and not is_inherited:
            varied[name] = columns[name]
    kinds = tuple(name.removesuffix("kind") for name in varied if name.endswith(".kind"))
    for name in [name for name in varied if name.startswith(kinds)]:
        if not name.endswith(".kind"):
            del varied[name]  # kinds have fields of their own
    if not 0 < len(varied) <= MAX_FIELDS:
        return [_folder_name(group, groups) for group in groups]
    return [", ".join(f"{name}={values.get(name)}" for name in varied) for values in fields]


def _folder_name(runs: Sequence[RunFolder], groups: Sequence[Sequence[RunFolder]]) -> str:
    """Return the name of a system by its folders: the folder of a sweep or an ensemble if it holds
    all runs of this group and no run of another group, otherwise the first run."""
    first = runs[0].path
    if len(runs) == 1:
        return str(first)
    folder = first.parent
    inside = [run for group in groups for run in group if run.path.parent == folder]
    if inside == list(runs) and _has_several_runs(folder):
        return f"{folder} ({len(runs)} runs)"
    return f"{first} and {len(runs) - 1} more"


def _evaluation(folder: RunFolder, data: Path, on_progress: OnProgress | None) -> Evaluation:
    """Return the evaluation of a run on a file: a saved one of the same pairs with the run's own
    search, or a new one, which is saved."""
    search = folder.experiment().search
    options = EvaluationOptions(search=search, held_out=data == folder.test)
    if options.held_out:  # the pairs are known without the model
        known = _known(folder, data, read_pairs(data).pairs, options)
        if known is not None:
            return known
    model = load(folder.path)
    pairs = evaluate.read(model, data, options).pairs
    known = _known(folder, data, pairs, options)
    if known is None:
        known = evaluate.evaluate(model, pairs, options, on_progress=on_progress)
        evaluate.save(folder, known, data)
    return known


def _known(
    folder: RunFolder, data: Path, pairs: Sequence[Pair], options: EvaluationOptions
) -> Evaluation | None:
    """Return the saved evaluation of a run on these pairs with these options. None without one, and
    if the training continued after it."""
    if folder.results.exists() and folder.results.stat().st_mtime < folder.model.stat().st_mtime:
        return None
    sources = [pair.source for pair in pairs]
    evaluations = map(Evaluation.of_entry, saved_evaluations(folder).get(key_of(folder, data), []))
    return next((each for each in evaluations if each and _is_on(each, sources, options)), None)


def _is_on(evaluation: Evaluation, sources: Sequence[str], options: EvaluationOptions) -> bool:
    """Whether an evaluation has these sources and these options."""
    settings = evaluation.settings
    own = asdict(options.search)
    search = settings.get("search", own)
    is_own = all(str(search.get(name)) == str(value) for name, value in own.items())
    extras = any(settings.get(name) for name in ("lowercase", "tokenized", "ensemble"))
    known = {output.source for output in evaluation.outputs}
    return is_own and not extras and known == set(sources) and evaluation.num_pairs == len(sources)


def _check_sources(systems: Sequence[System]) -> None:
    """Raise a UserError unless all systems have outputs for the same sources in the same order."""
    first = [output.source for output in systems[0].outputs]
    for system in systems:
        for run, evaluation in zip(system.runs, system.evaluations, strict=True):
            if [output.source for output in evaluation.outputs] != first:
                raise UserError(
                    f"{systems[0].runs[0]} and {run} have outputs for different sources: evaluate "
                    "both again on the same data"
                )


def _comparisons(
    systems: Sequence[System], experiment: Experiment, num_samples: int
) -> tuple[Comparison, ...]:
    if len(systems) < 2:
        return ()
    outputs = {system.name: system.outputs for system in systems}
    if isinstance(experiment.data, ClassificationDataConfig):
        metric = "accuracy" if experiment.data.target == "label" else "mean error"
        return compare_values(
            metric, {name: _values(each, metric) for name, each in outputs.items()}, num_samples
        )
    texts = {name: [output.text for output in each] for name, each in outputs.items()}
    references = [output.references for output in systems[0].outputs]
    matches = {name: _values(each, "exact match") for name, each in outputs.items()}
    return (
        *compare_texts(texts, references, num_samples),
        *compare_values("exact match", matches, num_samples),
    )


def _values(outputs: Sequence[ScoredOutput], metric: str) -> np.ndarray:
    """Return the value of each output: 100 if it is right, or its mean absolute error."""
    if metric != "mean error":
        return np.array([100.0 * _is_right(output) for output in outputs])
    errors = (
        np.abs(np.array(output.text.split(), float) - np.array(output.references[0].split(), float))
        for output in outputs
    )
    return np.array([error.mean() for error in errors])


def _is_right(output: ScoredOutput) -> bool:
    return output.text.split() in [reference.split() for reference in output.references]


def _differences(
    systems: Sequence[System], experiment: Experiment, number: int
) -> tuple[DifferentOutput, ...]:
    """Return the outputs of each system that differ most from the baseline's."""
    result = []
    for system in systems[1:]:
        rows = []
        for first, second in zip(systems[0].outputs, system.outputs, strict=True):
            if first.text != second.text:
                gain = _gain(first, second, experiment)
                rows.append(
                    DifferentOutput(
                        first.source, first.references, system.name, first.text, second.text, gain
                    )
                )
        result += sorted(rows, key=lambda row: -abs(row.gain))[:number]
    return tuple(result)


def _gain(first: ScoredOutput, second: ScoredOutput, experiment: Experiment) -> float:
    if isinstance(experiment.data, ClassificationDataConfig):
        metric = "accuracy" if experiment.data.target == "label" else "mean error"
        values = _values([first, second], metric)
        return float(values[1] - values[0])
    scores = [chrf([output.text], [output.references]).value for output in (first, second)]
    return scores[1] - scores[0]
