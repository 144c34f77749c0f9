"""Evaluation of a run of any task, and its results.json."""

from __future__ import annotations

import errno
import json
import logging
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from regard.config import Data, DataConfig
from regard.corpora.sources import matching_files
from regard.data.examples import Corpus, Pair
from regard.errors import UserError
from regard.pipeline.load import Model
from regard.runs.ensemble import folder_of
from regard.runs.environment import Environment
from regard.runs.folder import RunFolder
from regard.runs.results import key_of, saved_evaluations
from regard.runtime.device import device_named
from regard.runtime.progress import OnProgress
from regard.storage.files import UnwritableError, locked
from regard.storage.record import digest_of_file
from regard.tasks.all_tasks import task_of
from regard.tasks.captioning.model import CaptionModel
from regard.tasks.evaluation import Evaluation, EvaluationOptions
from regard.tasks.source_form import SourceForm

log = logging.getLogger(__name__)

READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of writing to a read-only folder."""
PROBLEMS_SHOWN = 5
"""Number of different problems of sources that are reported."""
MANY = 0.2
"""Share of the evaluated pairs above which training on them is described."""
MAX_TRAINING_FILE = 20_000_000
"""Size in bytes of a training file above which it is not searched for the evaluated pairs."""


def read(model: Model, path: Path, options: EvaluationOptions) -> Corpus:
    """Read the pairs to evaluate a model on."""
    return task_of(model.data).read(model, path, options)


def describe_training(model: Model, runs: Sequence[Path], path: Path, pairs: Sequence[Pair]) -> str:
    """Return a sentence if runs of an ensemble were trained on this file or on many of its pairs,
    which are searched for in the training data of the first run; otherwise an empty text."""
    folder = RunFolder(runs[0])
    data = {run: RunFolder(run).experiment().data for run in runs}
    trained = [run for run in data if _is_training_file(data[run], path)]
    place = f"pairs of {path}"
    if not trained:
        number = _num_trained(model, folder, pairs)
        if number <= MANY * len(pairs):
            return ""
        trained = [run for run in data if data[run] == data[runs[0]]]
        place = f"{number:,} of these {len(pairs):,} pairs"
    ensemble = folder_of(runs)
    if ensemble is not None and len(trained) == len(runs):
        names = f"all runs of {ensemble}"
    else:
        names = " and ".join(map(str, trained))
    words: list[str | Path] = [ensemble or runs[0]]
    if ensemble is None and len(runs) > 1:
        words += ["--ensemble", *runs[1:]]
    held_out = f"; held-out scores: regard evaluate {shlex.join(map(str, words))}"
    return (
        f"{names} {'was' if len(trained) == 1 else 'were'} trained on {place}, so these scores say "
        f"little about other data{held_out if folder.test.exists() else ''}"
    )


def _is_training_file(data: Data, path: Path) -> bool:
    """Return whether this is a file of the training data, or a copy of one."""
    if not path.is_file():
        return False
    files = [file for file, _ in _training_files(data)]
    if any(file.samefile(path) for file in files):
        return True
    size = path.stat().st_size
    as_large = [file for file in files if file.stat().st_size == size]
    return any(digest_of_file(file) == digest_of_file(path) for file in as_large)


def _training_files(data: Data) -> list[tuple[Path, Path | None]]:
    """Return the files of the training examples that still exist, with their files of targets."""
    if isinstance(data, DataConfig):
        try:
            files = [*chain.from_iterable(map(matching_files, data.corpora))]
        except UserError:  # a pattern that matches no file any more
            return []
    else:
        files = [] if data.path is None else [(data.path, None)]
    return [pair for pair in files if all(path is None or path.is_file() for path in pair)]


def _num_trained(model: Model, folder: RunFolder, pairs: Sequence[Pair]) -> int:
    """Return the number of pairs that the run was trained on: those of its training files whose
    sources it did not hold out. 0 if these are gone, unreadable or large, and for captions."""
    files = [] if model.data.task == "caption" else _training_files(model.data)
    if sum(path.stat().st_size for path, _ in files) > MAX_TRAINING_FILE:
        return 0
    held_out = EvaluationOptions(held_out=True)
    try:
        trained = [
            pair
            for path, target_path in files
            for pair in read(model, path, EvaluationOptions(target_path=target_path)).pairs
        ]
    except UserError:
        return 0
    sources = {
        pair.source
        for file in (folder.dev, folder.test)
        if file.exists()
        for pair in read(model, file, held_out).pairs
    }
    known = {(pair.source, pair.target) for pair in trained if pair.source not in sources}
    return sum((pair.source, pair.target) in known for pair in pairs)


def evaluate(
    model: Model,
    pairs: Sequence[Pair],
    options: EvaluationOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Score a model on pairs. By default it searches as its recipe says. Pairs whose sources do not
    have the form of the training sources are left out and listed."""
    options = options or EvaluationOptions(search=model.experiment.search)
    left_out = list[str]()
    if not isinstance(model, CaptionModel):
        pairs, left_out = _fitting(model.source_form, pairs)
    evaluation = task_of(model.data).evaluate(model, pairs, options, on_progress)
    return replace(evaluation, left_out=(*left_out, *evaluation.left_out))


def _fitting(form: SourceForm, pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """Return the pairs whose sources have the form of the training sources, and a line for each
    problem of the others. UserError if there are no others."""
    fitting, problems = list[Pair](), dict[str, list[Pair]]()
    for pair in pairs:
        problem = form.problem(pair.source)
        (problems.setdefault(problem, []) if problem else fitting).append(pair)
    lines = [
        f"left out {len(others):,} of {len(pairs):,} pairs: {others[0].place} has {problem}"
        for problem, others in problems.items()
    ]
    if pairs and not fitting:
        raise UserError(lines[0])
    return fitting, lines[:PROBLEMS_SHOWN]


def save(folder: RunFolder, evaluation: Evaluation, data: Path, device: str = "auto") -> None:
    """Add an evaluation, with scores, outputs and environment, to the run's results.json. It
    replaces an earlier evaluation on as many pairs of the same file with the same options. `device`
    names the device that the model ran on. Warn if the folder is read-only, as that of another
    person. UnwritableError if the disk is full."""
    name = key_of(folder, data)
    files = [data] if data.is_file() else []
    environment = Environment.now(device_named(device), data=files)
    entry = evaluation.entry() | {"environment": asdict(environment)}
    new = json.loads(json.dumps(entry, default=str))
    with locked(folder.path):
        results = saved_evaluations(folder)
        others = [entry for entry in results.get(name, []) if _options(entry) != _options(new)]
        results[name] = [*others, new]
        try:
            folder.write(folder.results, json.dumps(results, ensure_ascii=False, indent=1))
        except UnwritableError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in READ_ONLY:
                raise
            log.warning("%s; the scores are not saved", error)


def _options(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without its scores, slices, outputs and environment."""
    results = ("scores", "slices", "outputs", "environment")
    return {name: value for name, value in entry.items() if name not in results}
