"""`regard sweep`: train a recipe with varied fields."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard import recipes
from regard.cli.output import say, warn
from regard.cli.parsing.experiments import data_after_recipe
from regard.cli.parsing.help import REPEATED, Positional
from regard.cli.parsing.options import Record, parse_own
from regard.cli.progress import PreparationView
from regard.cli.tables import format_table
from regard.cli.training import train
from regard.config import Data, Experiment, resolve
from regard.config.checks import Count, Gpus
from regard.corpora.table_settings import run_name
from regard.errors import UsageError, UserError, counted, install_command
from regard.runs.sweep_record import SweepRecord
from regard.runtime.signals import TerminatedError

if TYPE_CHECKING:
    from regard.studies.sweep import Job, JobResult, Workers

HELP_EXAMPLES = (
    (
        "regard sweep letters pairs.tsv --vary training.seed=1..5",
        "five seeds",
    ),
    (
        "regard sweep letters pairs.tsv --vary training.seed=1..3 --vary model.size=128,256",
        "six runs",
    ),
)


@dataclass(frozen=True)
class Options:
    """Train a recipe once for each combination of values, side by side, and print one table. Repeat
    the command to continue an interrupted sweep, or with more values to extend it. All other
    options are those of `regard train`, for all runs."""

    recipe: Positional[str]
    """Name of a recipe, a recipe file, or a data file."""
    vary: Annotated[tuple[str, ...], REPEATED]
    """Field with its values: a list, as model.size=128,256, or a range, as training.seed=1..5."""
    file: Positional[Path | None] = None
    """Data file of the recipe (default: that of the recipe)."""
    output: Path | None = None
    """Folder of the runs and of table.csv (default: sweeps/NAME)."""
    workers: Count | None = None
    """Number of trainings at a time (default: number of cores / threads)."""
    threads: Count = 1
    """Number of threads of each training."""
    address: str | None = None
    """Train on the Ray cluster at HOST:PORT, on the one that this machine belongs to (auto), or on
    Ray started on this machine (local). Needs ray[tune]. Default: processes of this machine."""
    gpus: Gpus = 0
    """Number of GPUs of each training on a Ray cluster, such as 1 or 0.5."""


def run(arguments: list[str]) -> int:
    """Train all combinations and print a table; return 1 if a training failed."""
    options, record = parse(Options, arguments, "sweep")
    if options.gpus and not options.address:
        raise UsageError("--gpus is for Ray: name a cluster with --address")
    return train_jobs(options, record)


def parse(options: type[Record], arguments: list[str], command: str) -> tuple[Record, SweepRecord]:
    """Return the options of a sweep or an ensemble, and the record of its folder with the arguments
    of each training. UserError for options that do not fit."""
    own, others = parse_own(options, arguments, f"regard {command}")
    if "--resume" in others:
        raise UsageError(f"--resume is not needed: repeat the command to continue the {command}")
    return own, SweepRecord(others, command)


def folder_of(output: Path | None, record: SweepRecord) -> Path:
    """Return the folder of --output, by default named after the data file, or else the recipe."""
    name = run_name(Path(data_after_recipe(record.arguments) or ""))
    return output or Path(f"{record.command}s") / (name or Path(record.arguments[0]).stem)


def train_jobs(options: Options, record: SweepRecord) -> int:
    """Train all combinations and print a table; return 1 if a training failed."""
    from regard.studies.sweep import (
        INTERRUPTED,
        argument_of,
        check_data,
        check_folder,
        is_done,
        jobs_of,
        rows_of,
        sweep,
    )

    folder = folder_of(options.output, record)
    jobs = jobs_of(options.vary, folder)
    check_folder(folder, jobs, record)
    experiments = _experiments(jobs, record.arguments)
    finished = {job for job in jobs if is_done(job)}
    num_left = len(jobs) - len(finished)
    if num_left:
        check_data(jobs, experiments)
        _check_data(experiments)
    workers, place = _workers(options, max(1, num_left))
    if finished:
        place = f"{len(finished)} finished already, {place}" if num_left else "finished already"
    say(f"{counted(len(jobs), 'training')}, {place}, in {folder}")
    num_done = 0

    def report(result: JobResult) -> None:
        nonlocal num_done
        num_done += 1
        score = "" if result.dev_score is None else f"dev score {result.dev_score:.2f}"
        time = "finished already" if result.job in finished else f"{result.seconds:.0f} s"
        outcome = result.problem or f"{score}  {time}"
        say(f"{num_done} of {len(jobs)}  {result.job.folder.name}  {outcome}")

    try:
        results = sweep(folder, jobs, record, workers, report)
    except (KeyboardInterrupt, TerminatedError):
        warn("all trainings are saved: repeat the command to continue")
        raise
    print()
    print("\n".join(format_table([_shown(row) for row in rows_of(results)])))
    _print_note(results)
    if sum(not result.problem for result in results) > 1:
        say(f"compare them: regard compare {shlex.quote(argument_of(folder))}")
    failed = [result for result in results if result.problem]
    for result in failed:
        name = result.job.folder.name
        if result.problem == INTERRUPTED:
            warn(f"{name} is not complete: repeat the command to continue it")
        else:
            warn(f"{name} failed: {result.problem}")
    return 1 if failed else 0


def _print_note(results: Sequence[JobResult]) -> None:
    """Print a line about BLEU if the table leaves it out."""
    from regard.studies.sweep import TABLE
    from regard.tasks.evaluation import bleu_note, is_informative

    num_words = [result.num_words for result in results if "BLEU" in result.test_scores]
    if num_words and not is_informative("BLEU", min(num_words)):
        print(bleu_note(min(num_words), TABLE))


def _workers(options: Options, num_jobs: int) -> tuple[Workers, str]:
    """Return the workers of a sweep and their description. UserError if Ray is not installed."""
    if options.address is None:
        from regard.studies.sweep import LocalWorkers

        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
        number = min(options.workers or max(1, cores // options.threads), num_jobs)
        return LocalWorkers(number, options.threads), f"{number} at a time"
    try:
        from regard.cluster.sweep_workers import RayWorkers
    except ImportError as error:
        raise UserError(
            f"--address needs Ray Tune, which is not installed: {install_command('ray[tune]')}"
        ) from error
    workers = RayWorkers(options.address, options.threads, options.gpus, options.workers)
    return workers, f"on Ray ({options.address})"


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the table with each mean and its deviation in one column."""
    shown = {name: value for name, value in row.items() if not name.startswith("± ")}
    for name in shown:
        deviation = row.get(f"± {name}")
        if deviation is not None:
            shown[name] = f"{row[name]:.2f} ± {deviation:.2f}"
    return shown


def _experiments(jobs: Sequence[Job], arguments: Sequence[str]) -> list[Experiment]:
    """Return the experiments of the jobs, and print the lines about data and recipe, each once.
    Jobs that differ in seeds alone have one experiment. UserError for an option, a value or a
    combination that training would not accept, and for a value that is written in two ways."""
    from regard.studies.sweep import SEEDS

    experiments: list[Experiment] = []
    messages: list[str] = []
    checked: set[tuple[str, str]] = set()
    texts: dict[tuple[str, str], str] = {}
    combinations: set[frozenset[tuple[str, str]]] = set()
    for job in jobs:
        combination = frozenset(pair for pair in job.values if pair[0] not in SEEDS)
        if combination in combinations and checked.issuperset(job.values):
            continue
        options = train.parse([*arguments, *job.options], messages.append)
        _check_distinct(job, options.experiment, texts)
        if combination not in combinations:
            experiments.append(resolve(options.experiment))
        checked.update(job.values)
        combinations.add(combination)
    for message in dict.fromkeys(messages):
        say(message)
    return experiments


def _check_distinct(job: Job, experiment: Experiment, texts: dict[tuple[str, str], str]) -> None:
    """Raise a UserError if a value of the job equals another value of the sweep. `texts`: the text
    of each value so far, by field and parsed value."""
    fields = dict(recipes.flat(asdict(experiment)))
    for name, text in job.values:
        known = texts.setdefault((name, repr(fields.get(name, text))), text)
        if known != text:
            raise UserError(
                f"--vary {name}: {known} and {text} are one value: leave one of them out"
            )


def _check_data(experiments: Sequence[Experiment]) -> None:
    """Raise a UserError if an experiment has no data, or files that cannot be read."""
    from regard.pipeline.check import check_files

    checked: list[Data] = []
    for data in (experiment.data for experiment in experiments):
        if data not in checked and (data.path is not None or data.synthetic is None):
            with PreparationView() as on_progress:
                check_files(data, on_progress)
        checked.append(data)
