"""Training from Python: a file or data in memory, and the trained model as the result."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import recipes
from regard.characters import with_escapes
from regard.config import Data, Experiment
from regard.corpora.table_settings import (
    check_choice,
    experiment_of_recipe,
    experiment_on_file,
    named_settings,
    named_value,
    number_fields,
    run_name,
    table_settings,
    with_fields,
    with_path,
)
from regard.data.files.objects import NAME as NAME_OF_DATA
from regard.data.files.objects import table_of
from regard.data.recognition.inspection import Inspection, can_inspect, inspect, inspect_table
from regard.data.recognition.roles import Roles
from regard.data.recognition.table import Table
from regard.errors import UserError
from regard.names import TaskName
from regard.pipeline import train as training
from regard.pipeline.diagnosis import diagnose_run
from regard.pipeline.load import Model, load
from regard.pipeline.notebook_progress import NotebookProgress
from regard.pipeline.plan import Plan
from regard.runs.folder import RunFolder
from regard.storage.files import check_name
from regard.tasks.arguments import check_path
from regard.training.log import Reporter
from regard.viewing.notebook import is_notebook

log = logging.getLogger(__name__)

NAME = "model"
"""Name of a run without a recipe and without a file."""
_one_training = threading.RLock()
"""Lock of a training: the trainings of several threads would draw from one random generator."""


def train(
    data: object,
    recipe: str | Path | Experiment | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> Model:
    """Train a model and return it.

    `data` is a file, a pandas or polars data frame, a datasets.Dataset, a list of pairs or of
    dictionaries, or None for the recipe's own data. `settings` are fields of the recipe by full
    name, such as {"training.epochs": 5}. Without `recipe`, the recipe is the one that suits the
    data, as for `regard train FILE`. Without `output`, the run folder is temporary, and is deleted
    with the model. `reporter` observes the training; by default, a notebook shows a bar and the
    validations, and nothing is printed elsewhere. Warnings name rows and settings that are not
    used, reasons why little can be learned, and the likely cause if nothing was learned.

    UserError as from the command, TypeError for data of another type. Ctrl-C saves the training and
    raises KeyboardInterrupt; `resume` continues the run in the folder `output`."""
    if output is not None:
        check_path("output", output)
        check_name(output)
        if output == "":
            raise UserError("output is empty: expected a folder, or None for a temporary one")
    elif resume:
        raise UserError("resume continues a run in a folder: name it with output")
    experiment, table = experiment_of(data, recipe, settings or {})
    progress = NotebookProgress() if reporter is None and is_notebook() else None
    observer = reporter or progress
    folder = Path(output or tempfile.mkdtemp(prefix="regard-"))
    try:
        with _one_training:
            end = training.train(
                experiment,
                folder,
                resume=resume,
                begin=lambda plan: _begin(plan, observer, settings or {}),
                on_progress=progress.on_progress if progress else None,
                table=table,
            )
        if end.interrupted:
            saved = (
                f"saved in {folder}; call train again with resume=True" if output else end.reason
            )
            raise KeyboardInterrupt(saved)
        diagnosis = diagnose_run(end, RunFolder(folder), experiment)
        if diagnosis is not None:
            warnings.warn(diagnosis, stacklevel=2)
        with _one_training:  # a new model draws random weights before it gets those of the run
            model = load(folder, device=experiment.training.device)
    except BaseException:
        if output is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if output is None:
        weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)
    return model


def experiment_of(
    data: object, recipe: str | Path | Experiment | None, settings: Mapping[str, object]
) -> tuple[Experiment, Table | None]:
    """Return the experiment of a call of `train`, and the rows of data in memory."""
    if not isinstance(settings, Mapping):
        raise TypeError(
            f"settings is {type(settings).__name__}: expected fields with their values, such as "
            '{"training.epochs": 5}'
        )
    if isinstance(data, str) and not data:
        raise UserError("data is an empty file name: expected a file or data in memory")
    path = check_name(data) if isinstance(data, str | Path) else None
    table = None if data is None or path is not None else table_of(data)
    if recipe is not None:
        experiment = recipe_of(recipe)
    elif table is not None:
        experiment = _experiment_on_table(table, settings)
    elif path is not None:
        _check_no_recipe(path)
        experiment = _experiment_on_file(path, settings)
    else:
        raise UserError("expected data, a recipe, or both")
    experiment = recipes.with_settings(experiment, settings)
    if data is None:
        return experiment, None
    if dict(recipes.flat(dict(settings))).get("data.mix") is not None:
        raise UserError(
            "data and the setting data.mix both name training pairs: give None as data, or leave "
            "data.mix out"
        )
    section = with_path(experiment.data, path)
    inspection = None
    if recipe is not None and path is not None and _is_inspected(path, section):
        inspection = inspect(path, table_settings(section), section.task)
    elif recipe is not None and table is not None and table.header and table.rows:
        inspection = inspect_table(table, table_settings(section), section.task)
    if inspection is not None:
        check_choice(section.checks, inspection.problem)
        columns = inspection.columns()
        fields = {name: value for name, value in columns.items() if not _is_set(section, name)}
        named = dict(recipes.flat(dict(settings)))
        recognised = number_fields(section, inspection.roles.fields)
        fields |= {name: value for name, value in recognised.items() if name not in named}
        section = with_fields(section, fields)
    return replace(experiment, data=section), table


def recipe_of(recipe: str | Path | Experiment) -> Experiment:
    """Return the experiment of a recipe: itself, or by its name or file. UserError if there is
    none."""
    if isinstance(recipe, Experiment):
        return recipe
    check_path("recipe", recipe)
    return recipes.load(recipes.find(str(recipe)))


def _experiment_on_file(path: Path, settings: Mapping[str, object]) -> Experiment:
    """Return the experiment of the recipe that suits a file, as `regard train FILE` does."""
    named = dict(recipes.flat(dict(settings)))
    inspection = None
    if can_inspect(path):
        task = named_value(named, "data.task", TaskName)
        inspection = inspect(path, named_settings(named), task)
        check_choice(named.get("data.checks"), inspection.problem)
        _report(inspection.roles, inspection.lines()[:2], named)
        if not inspection.table.is_header_certain:
            text = inspection.first_row_line.replace(
                "--data.header", 'settings={"data.header": True}'
            )
            text = text.replace("--data.no-header", 'settings={"data.header": False}')
            warnings.warn(text, stacklevel=4)  # the caller of `train`
    return experiment_on_file(path, inspection, run_name(path) or NAME)


def _experiment_on_table(table: Table, settings: Mapping[str, object]) -> Experiment:
    """Return the experiment of the recipe that suits data in memory."""
    named = dict(recipes.flat(dict(settings)))
    task = named_value(named, "data.task", TaskName)
    inspection = inspect_table(table, named_settings(named), task)
    roles = inspection.roles
    check_choice(named.get("data.checks"), inspection.problem)
    _report(roles, _lines(inspection), named)
    fields = dict(roles.fields)
    if table.header is not None or (roles.source, roles.target) != (0, 1):
        fields |= inspection.columns()
    return experiment_of_recipe(roles.recipe, None, NAME, fields)


def _lines(inspection: Inspection) -> list[str]:
    """Return the lines about the columns of data in memory, as `Inspection.lines` does."""
    roles = inspection.roles
    option = f". Otherwise: {roles.alternative}" if roles.alternative else ""
    doubt = f". Uncertain: {roles.doubt}" if roles.doubt else ""
    source, target = map(inspection.column, (roles.source, roles.target))
    return [
        f"{NAME_OF_DATA}: {roles.title}, recipe {roles.recipe}{option}",
        f"columns: {source} -> source, {target} -> target{doubt}",
    ]


def _report(roles: Roles, lines: Sequence[str], named: Mapping[str, Any]) -> None:
    """Report the choice of the columns and the task: in the log, and as a warning if it is not
    certain whether the targets are numbers or labels, and the settings do not say it."""
    for line in lines:
        log.info("%s", line)
    may_be_numbers = roles.alternative or roles.fields.get("data.target") == "number"
    if not may_be_numbers or "data.target" in named:
        return
    text = "; ".join(lines)
    if roles.alternative:
        name, _, value = roles.alternative.removeprefix("--").partition(" ")
        text = text.replace(roles.alternative, f'settings={{"{name}": "{value}"}}')
    warnings.warn(text, stacklevel=5)  # the caller of `train`


def _is_inspected(path: Path, data: Data) -> bool:
    return can_inspect(path) and getattr(data, "target_path", None) is None


def _is_set(data: Data, name: str) -> bool:
    return getattr(data, name.removeprefix("data.")) is not None


def _check_no_recipe(path: Path) -> None:
    """Raise a UserError for the name of a recipe in place of data."""
    if str(path) in recipes.names() and not path.exists():
        raise UserError(
            f"{path} is a recipe, not a file: pass it as the second argument, as in train(pairs, "
            f'"{path}"), or train(None, "{path}") for a recipe with data of its own'
        )


def _begin(
    plan: Plan, reporter: Reporter | None, settings: Mapping[str, object]
) -> Reporter | None:
    """Warn of rows and settings that are not used and of reasons why little can be learned, and
    return the reporter."""
    names = {name for name, _ in recipes.flat(dict(settings))}
    unused = [str(option) for option in plan.unused if option.name in names]
    findings = [finding.text for finding in plan.findings]
    for line in (*plan.left_out, *findings, *unused):
        warnings.warn(with_escapes(line), stacklevel=5)  # the caller of `train`
    return reporter
