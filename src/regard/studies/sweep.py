"""Trainings of a recipe with varied fields, in processes of their own, side by side."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any, Protocol, runtime_checkable

from regard.config import Experiment
from regard.errors import UserError
from regard.runs.ensemble import is_ensemble
from regard.runs.environment import changed_data, data_files, read_sessions
from regard.runs.folder import RunFolder
from regard.runs.results import saved_evaluations
from regard.runs.sweep_record import SweepRecord
from regard.storage.files import locked_or_refused, make_folder, write_csv
from regard.tasks.evaluation import Evaluation, is_informative

TABLE = "table.csv"
"""Name of the table in the folder of a sweep."""
SEEDS = ("training.seed", "data.seed")
"""Fields over which the table has means."""
MAX_JOBS = 1000
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
PROCESS = "regard.studies.training_process"
COMPLETE = ("finished", "patience")
"""Reasons for the end of a training that is not continued."""
INTERRUPTED = "interrupted"
"""Problem of a job that was stopped."""
POLL_SECONDS = 0.2
MAX_NAME_BYTES = 200
"""Largest size of the name of a run folder. File systems allow 255 bytes, `.log` included."""


@dataclass(frozen=True)
class Job:
    """Training with one value of each varied field, by full name."""

    values: tuple[tuple[str, str], ...]
    folder: Path

    @property
    def options(self) -> list[str]:
        """Return the values as options of `regard train`."""
        flags = ((f"--{name.replace('_', '-')}", value) for name, value in self.values)
        return [word for flag in flags for word in flag]


@dataclass(frozen=True)
class JobResult:
    """Result of a job. A job that failed or was stopped has no scores."""

    job: Job
    problem: str = ""
    """Last line of the output of a job that failed; "interrupted" for one that was stopped."""
    seconds: float = 0.0
    """Seconds of training, over all sessions."""
    dev_score: float | None = None
    test_scores: Mapping[str, float] = field(default_factory=dict)
    num_words: float = 0.0
    """Mean number of words of the references of the test split."""


def jobs_of(vary: Sequence[str], folder: Path) -> tuple[Job, ...]:
    """Return a job for each combination of values, in the order of the fields.

    A field is FIELD=VALUE,VALUE or FIELD=FIRST..LAST. UserError for any other text, for a field
    that comes twice and for more than `MAX_JOBS` jobs."""
    fields: dict[str, list[str]] = {}
    for text in vary:
        name, equals, values = text.partition("=")
        if not (equals and name and values):
            raise UserError(
                f"--vary {text}: expected FIELD=VALUE,VALUE or FIELD=FIRST..LAST, as in "
                "training.seed=1..5"
            )
        if "." not in name:
            raise UserError(f"--vary {name}: expected a field of the recipe, as training.seed")
        name = name.replace("-", "_")
        if name in fields:
            raise UserError(f"--vary names {name} twice: give all of its values once")
        fields[name] = _values(values)
    if not fields:
        raise UserError("name a field to vary, as in --vary training.seed=1..5")
    num_jobs = 1
    for values_of_field in fields.values():
        num_jobs *= len(values_of_field)
    if num_jobs > MAX_JOBS:
        raise UserError(f"--vary gives {num_jobs:,} trainings: expected at most {MAX_JOBS:,}")
    combinations = (tuple(zip(fields, values, strict=True)) for values in product(*fields.values()))
    return tuple(Job(values, folder / _name(values)) for values in combinations)


def _values(text: str) -> list[str]:
    values: list[str] = []
    for part in text.split(","):
        match = RANGE.fullmatch(part)
        if match is None:
            values.append(part)
            continue
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < MAX_JOBS:
            raise UserError(f"--vary {part}: expected a range of 1 to {MAX_JOBS:,} numbers")
        values += map(str, range(first, last + 1))
    return list(dict.fromkeys(values))


def _name(values: Sequence[tuple[str, str]]) -> str:
    """Return the name of a run's folder. A name that is shortened, or has a slash, ends with a
    digest, so no two jobs have the same name."""
    text = ",".join(f"{name}={value}" for name, value in values)
    name = text.replace("/", "_").encode()
    if name == text.encode() and len(name) <= MAX_NAME_BYTES:
        return text
    digest = sha256(text.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME_BYTES - 9].decode(errors='ignore')}-{digest}"


@runtime_checkable
class StopSignal(Protocol):
    """Signal to stop a job, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the job has to stop."""


def check_folder(folder: Path, jobs: Sequence[Job], record: SweepRecord) -> None:
    """Raise a UserError if a folder holds a run, a sweep with other arguments, or files that do not
    belong to a sweep. Values may be added to a sweep."""
    if RunFolder(folder).config.exists():
        raise UserError(f"{folder} holds a run: name another folder with -o")
    known = SweepRecord.read(folder)
    if known is not None:
        if known.arguments != record.arguments:
            noun = "ensemble" if is_ensemble(folder) else known.command
            raise UserError(
                f"{folder} has the {noun} `{shlex.join(known.arguments)}`: repeat these "
                "arguments, or name another folder with -o"
            )
        return
    if is_ensemble(folder) or any(job.folder.exists() for job in jobs):
        return
    if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise UserError(
            f"{folder} is not empty and holds no {record.command}: name a new folder with -o"
        )


def run_job(
    job: Job, arguments: Sequence[str], num_threads: int, stopped: StopSignal | None = None
) -> JobResult:
    """Train a job in a process of its own, evaluate it on its test split and return the scores.

    A job that is complete is not trained again, and an interrupted one continues. The output is in
    a file beside the run. `stopped` interrupts the process, which saves its training."""
    run = RunFolder(job.folder)
    stopped = stopped or Event()
    if not is_complete(run):
        words = ["train", *arguments, *job.options, "-o", argument_of(job.folder)]
        problem = _run(
            [*words, *(["--resume"] if run.config.exists() else [])], job, num_threads, stopped
        )
        if not problem and not is_complete(run):
            problem = INTERRUPTED
        if problem:
            return JobResult(job, problem)
    if not _is_evaluated(run):
        problem = _run(["evaluate", argument_of(job.folder)], job, num_threads, stopped)
        if not problem and not _is_evaluated(run):
            problem = "its scores could not be saved"
        if problem:
            return JobResult(job, problem)
    return result_of(job)


def argument_of(folder: Path) -> str:
    """Return a folder as an argument of a command, never as an option: ./-name."""
    return f"./{folder}" if str(folder).startswith("-") else str(folder)


def is_done(job: Job) -> bool:
    """Return whether a job is trained and evaluated."""
    run = RunFolder(job.folder)
    return is_complete(run) and _is_evaluated(run)


def check_data(jobs: Sequence[Job], experiments: Sequence[Experiment]) -> None:
    """Raise a UserError if a data file of these experiments was changed after one of the jobs was
    trained, and others are to be trained: they would have other data."""
    runs = [RunFolder(job.folder) for job in jobs]
    complete = [run for run in runs if is_complete(run)]
    if len(complete) == len(runs):
        return
    files = {str(file) for experiment in experiments for file in data_files(experiment.data)}
    checked: set[tuple[str, str]] = set()
    for run in complete:
        for session in read_sessions(run)[-1:]:
            data = {name: digest for name, digest in session.data.items() if name in files}
            if checked.issuperset(data.items()):
                continue
            checked.update(data.items())
            for name in changed_data(replace(session, data=data)):
                raise UserError(
                    f"{name} was changed after {run.path} was trained: put it back, or name "
                    "another folder with -o"
                )


def _is_evaluated(run: RunFolder) -> bool:
    return not run.test.exists() or run.test.name in saved_evaluations(run)


def is_complete(run: RunFolder) -> bool:
    """Return whether the training of a run has ended, neither interrupted nor out of time."""
    end = _end(run)
    return end is not None and end["reason"] in COMPLETE


def _end(run: RunFolder) -> dict[str, Any] | None:
    """Return the last line of a run's log if the training has ended."""
    if not run.log.exists():
        return None
    lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        record = json.loads(lines[-1]) if lines else None
    except ValueError:  # as after a crash
        return None
    is_end = isinstance(record, dict) and record.get("kind") == "end" and "reason" in record
    return record if is_end else None


def result_of(job: Job) -> JobResult:
    """Return the scores of a job that is done."""
    run = RunFolder(job.folder)
    end = _end(run) or {}
    seconds, dev_score = end.get("seconds", 0.0), end.get("score")
    entries = saved_evaluations(run).get(run.test.name, [])
    evaluation = Evaluation.of_entry(entries[0]) if entries else None
    if evaluation is None:
        return JobResult(job, "", seconds, dev_score)
    scores = {score.name: score.value for score in evaluation.scores}
    return JobResult(job, "", seconds, dev_score, scores, evaluation.num_words)


def _run(words: Sequence[str], job: Job, num_threads: int, stopped: StopSignal) -> str:
    """Run a command of Regard and return its problem, or nothing."""
    if stopped.is_set():
        return INTERRUPTED
    log = job.folder.with_name(f"{job.folder.name}.log")
    environment = {**os.environ, "OMP_NUM_THREADS": str(num_threads)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", PROCESS, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
        )
        is_stopped = False
        while True:
            try:
                status = process.wait(POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if stopped.is_set() and not is_stopped:
                    process.send_signal(signal.SIGINT)
                    is_stopped = True
    if status == 0:
        return ""
    if is_stopped:
        return INTERRUPTED
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), f"exit status {status}")


@runtime_checkable
class Workers(Protocol):
    """Workers that run jobs side by side."""

    def run(
        self, jobs: Sequence[Job], arguments: Sequence[str]
    ) -> Generator[JobResult, None, None]:
        """Yield the results as jobs end. If the iteration is broken off, as by Ctrl-C, running jobs
        save their trainings before this returns."""


@dataclass(frozen=True)
class LocalWorkers:
    """Workers on this machine, each with one job at a time."""

    num_workers: int
    num_threads: int = 1

    def run(
        self, jobs: Sequence[Job], arguments: Sequence[str]
    ) -> Generator[JobResult, None, None]:
        """Yield the results as jobs end, as in `Workers`."""
        stopped = Event()
        with ThreadPoolExecutor(self.num_workers) as pool:
            futures: list[Future[JobResult]] = [
                pool.submit(run_job, job, arguments, self.num_threads, stopped) for job in jobs
            ]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                stopped.set()


def rows_of(results: Sequence[JobResult]) -> list[dict[str, Any]]:
    """Return a row for each combination of values apart from seeds, with means over the seeds.
    Metrics that are not informative for these references are left out."""
    metrics = _metrics(results)
    groups: dict[tuple[tuple[str, str], ...], list[JobResult]] = {}
    for result in results:
        values = tuple(pair for pair in result.job.values if pair[0] not in SEEDS)
        groups.setdefault(values, []).append(result)
    return [_row(values, group, metrics) for values, group in groups.items()]


def _metrics(results: Sequence[JobResult]) -> list[str]:
    """Return the names of the test scores that are informative in all results."""
    names = dict.fromkeys(name for result in results for name in result.test_scores)
    return [name for name in names if all(is_informative(name, r.num_words) for r in results)]


def _row(
    values: Sequence[tuple[str, str]], results: Sequence[JobResult], metrics: Sequence[str]
) -> dict[str, Any]:
    complete = [result for result in results if not result.problem]
    dev = [result.dev_score for result in complete if result.dev_score is not None]
    tests = {
        name: [result.test_scores[name] for result in complete if name in result.test_scores]
        for name in metrics
    }
    row: dict[str, Any] = {**dict(values), "runs": len(complete)}
    for name, scores in {"dev score": dev, **{f"test {n}": s for n, s in tests.items()}}.items():
        row[name] = statistics.fmean(scores) if scores else None
        row[f"± {name}"] = statistics.stdev(scores) if len(scores) > 1 else None
    row["seconds"] = statistics.fmean(r.seconds for r in complete) if complete else None
    return row


def save_table(results: Sequence[JobResult], path: Path) -> None:
    """Write a CSV file with a row for each job."""
    tests = list(dict.fromkeys(name for result in results for name in result.test_scores))
    fields = [name for name, _ in results[0].job.values]
    columns = [*fields, "run", "problem", "seconds", "dev score", *(f"test {n}" for n in tests)]
    rows = [
        {
            **dict(result.job.values),
            "run": result.job.folder.name,
            "problem": result.problem,
            "seconds": result.seconds,
            "dev score": result.dev_score,
            **{f"test {name}": value for name, value in result.test_scores.items()},
        }
        for result in results
    ]
    write_csv(path, columns, rows)


OnResult = Callable[[JobResult], None]


def sweep(
    folder: Path,
    jobs: Sequence[Job],
    record: SweepRecord,
    workers: Workers,
    on_result: OnResult | None = None,
) -> list[JobResult]:
    """Train all jobs and write the table and the record. Complete jobs are not trained again.
    Returns the results in the order of the jobs. UserError if the folder holds something else, or
    if another process trains in it."""
    check_folder(folder, jobs, record)
    make_folder(folder)
    if SweepRecord.read(folder) is None:
        record.write(folder)
    refusal = (
        f"another process trains the runs of {folder}: wait for its end, or name another folder "
        "with -o"
    )
    results: dict[Path, JobResult] = {}
    with locked_or_refused(folder, refusal):
        rest = [job for job in jobs if not is_done(job)]
        for job in jobs:
            if job not in rest:
                results[job.folder] = result_of(job)
                if on_result:
                    on_result(results[job.folder])
        with closing(workers.run(rest, record.arguments)) as ended:
            for result in ended:
                results[result.job.folder] = result
                if on_result:
                    on_result(result)
        ordered = [results[job.folder] for job in jobs]
        save_table(ordered, folder / TABLE)
    return ordered
