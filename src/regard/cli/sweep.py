"""`regard sweep`: train a recipe with varied fields."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import recipes
from regard.cli import train
from regard.cli.output import say, warn
from regard.cli.parsing.experiments import data_after_recipe
from regard.cli.progress import PreparationView
from regard.cli.tables import format_table
from regard.config import Data, Experiment, resolve
from regard.corpora.table_settings import run_name
from regard.errors import UsageError, UserError, counted, install_command
from regard.runtime.signals import TerminatedError

if TYPE_CHECKING:
    from regard.studies.sweep import Job, JobResult, Workers

HELP = """\
usage: regard sweep RECIPE [FILE] --vary FIELD=VALUES [OPTIONS]

Train a recipe once for each combination of values, side by side, and print one table. Repeat the
command to continue an interrupted sweep, or with more values to extend it.

examples:
  regard sweep letters pairs.tsv --vary training.seed=1..5
  regard sweep letters pairs.tsv --vary training.seed=1..3 --vary model.size=128,256

options:
  --vary FIELD=VALUES   Values of a field: a list (128,256) or a range (1..5). Repeatable.
  -o, --output FOLDER   Folder of the runs and of table.csv. [sweeps/NAME]
  --workers NUMBER      Number of trainings at a time. [number of cores / threads]
  --threads NUMBER      Number of threads of each training. [1]
  --address ADDRESS     Train on the Ray cluster at HOST:PORT, on the one that this machine belongs
                        to (auto), or on Ray started on this machine (local). Needs ray[tune].
  --gpus NUMBER         Number of GPUs of each training on a Ray cluster, such as 1 or 0.5. [0]
  -h, --help            Show this help.

All other options are those of `regard train`, for all runs.
"""
EXAMPLE = "regard sweep letters pairs.tsv --vary training.seed=1..5"
OWN = {"--vary": "vary", "-o": "output", "--output": "output", "--workers": "workers"}
OWN |= {"--threads": "threads", "--address": "address", "--gpus": "gpus"}


@dataclass(frozen=True)
class Options:
    """Options of a sweep, and the arguments of each training."""

    vary: tuple[str, ...]
    output: Path
    workers: int | None
    """Number of trainings at a time; None for the default."""
    threads: int
    address: str | None
    gpus: float
    arguments: tuple[str, ...]
    command: str = "sweep"
    """Command of these options: `sweep` or `ensemble`."""


def run(arguments: list[str]) -> int:
    """Train all combinations and print a table; return 1 if a training failed."""
    if {"-h", "--help"} & {*arguments} or not arguments:
        print(HELP)
        raise SystemExit(0 if arguments else UsageError.STATUS)
    return train_jobs(parse(arguments))


def train_jobs(options: Options) -> int:
    """Train all combinations and print a table; return 1 if a training failed."""
    from regard.runs.sweep_record import SweepRecord
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

    jobs = jobs_of(options.vary, options.output)
    record = SweepRecord(options.arguments, options.command)
    check_folder(options.output, jobs, record)
    experiments = _experiments(jobs, options.arguments)
    finished = {job for job in jobs if is_done(job)}
    num_left = len(jobs) - len(finished)
    if num_left:
        check_data(jobs, experiments)
        _check_data(experiments)
    workers, place = _workers(options, max(1, num_left))
    if finished:
        place = f"{len(finished)} finished already, {place}" if num_left else "finished already"
    say(f"{counted(len(jobs), 'training')}, {place}, in {options.output}")
    num_done = 0

    def report(result: JobResult) -> None:
        nonlocal num_done
        num_done += 1
        score = "" if result.dev_score is None else f"dev score {result.dev_score:.2f}"
        time = "finished already" if result.job in finished else f"{result.seconds:.0f} s"
        outcome = result.problem or f"{score}  {time}"
        say(f"{num_done} of {len(jobs)}  {result.job.folder.name}  {outcome}")

    try:
        results = sweep(options.output, jobs, record, workers, report)
    except (KeyboardInterrupt, TerminatedError):
        warn("all trainings are saved: repeat the command to continue")
        raise
    print()
    print("\n".join(format_table([_shown(row) for row in rows_of(results)])))
    _print_note(results)
    if sum(not result.problem for result in results) > 1:
        say(f"compare them: regard compare {shlex.quote(argument_of(options.output))}")
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


def parse(arguments: list[str], command: str = "sweep", example: str = EXAMPLE) -> Options:
    """Return the options of a sweep or an ensemble; all other arguments are for `regard train`.
    Messages name the command and have the example."""
    values: dict[str, list[str]] = {name: [] for name in OWN.values()}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in OWN:
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if not value or value.startswith("--"):
            raise UsageError(f"{flag} has no value; `regard {command} --help` lists the options")
        values[OWN[flag]].append(value)
    if not rest or rest[0].startswith("-"):
        raise UsageError(f"name the recipe first, as in `{example}`")
    if "--resume" in rest:
        raise UsageError(f"--resume is not needed: repeat the command to continue the {command}")
    if values["gpus"] and not values["address"]:
        raise UsageError("--gpus is for Ray: name a cluster with --address")
    name = run_name(Path(data_after_recipe(rest) or "")) or Path(rest[0]).stem
    output = values["output"][-1] if values["output"] else f"{command}s/{name}"
    if output == "-":
        raise UsageError("--output is -: expected a folder")
    return Options(
        vary=tuple(values["vary"]),
        output=Path(output),
        workers=_number("--workers", values["workers"]),
        threads=_number("--threads", values["threads"]) or 1,
        address=values["address"][-1] if values["address"] else None,
        gpus=_gpus(values["gpus"]),
        arguments=tuple(rest),
        command=command,
    )


def _number(flag: str, values: list[str]) -> int | None:
    if not values:
        return None
    if not values[-1].isdecimal() or int(values[-1]) < 1:
        raise UserError(f"{flag} is {values[-1]!r}: expected a whole number from 1")
    return int(values[-1])


def _gpus(values: list[str]) -> float:
    """Return the number of GPUs of a training: a whole number, or a fraction of one GPU."""
    try:
        number = float(values[-1]) if values else 0.0
        if 0 <= number <= 1 or (number.is_integer() and 1 < number < float("inf")):
            return number
    except ValueError:
        pass
    raise UserError(f"--gpus is {values[-1]!r}: expected a whole number, or a fraction below 1")


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
