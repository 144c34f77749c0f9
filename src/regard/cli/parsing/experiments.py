"""Experiment of `regard train`, determined before the fields of the recipe are parsed.

The task and the kinds of the model's parts decide which options there are, so they are read first:
from the command line, then from the recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import recipes
from regard.cli.parsing.options import Typed, split, typed_values
from regard.config import (
    DATA_SECTIONS,
    KINDS,
    Experiment,
)
from regard.config.checks import all_changed_fields, format_value
from regard.corpora.table_settings import (
    check_choice,
    experiment_on_file,
    named_settings,
    named_value,
    number_fields,
    run_name,
    with_fields,
)
from regard.data.files.tables import SUFFIXES, TableSettings, suffix_of
from regard.data.recognition.formats import recognise
from regard.data.recognition.inspection import Inspection, can_inspect, inspect
from regard.errors import UsageError, UserError
from regard.names import TaskName
from regard.runs.folder import RunFolder
from regard.storage.files import check_input, check_name, exists, shorten_name

HELP = {"-h", "--help", "--help-all"}
NOT_INSPECTED = {"resume", "data.target_path"}
"""Options with which the data file is not inspected."""
Named = Mapping[str, Any]
"""Values of options, or their words, by the full names of the fields."""
FAMILY = "model.family"
"""Short for the kind of every part that has this kind."""
DATA_SUFFIXES = {".tsv", ".txt", ".csv", ".json", *SUFFIXES}
"""Suffixes of data files: a missing file with another suffix is an unknown recipe."""


def expand_shortcuts(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a data file after the recipe as --data.path, and with
    --model.family as the kinds of the parts whose own kind is not an argument."""
    words = list(arguments)
    if "" in words[:2]:
        raise UsageError(
            "an argument is empty: expected the name of a recipe or a file, as in "
            "`regard train words pairs.tsv`"
        )
    if (file := data_after_recipe(words)) is not None:
        words[1:2] = ["--data.path", file]
    named = typed_values(words)
    if FAMILY not in named:
        return words
    _check_once(f"--{FAMILY}", words)
    family = named_value(named, FAMILY, str)
    if family is None:
        expected = " or ".join(_families(*KINDS.values()))
        raise UsageError(f"--{FAMILY} has no value: expected {expected}")
    task = named_value(named, "data.task", str) or find_experiment(words[0], named).data.task
    parts = KINDS.get(task, {})
    kinds = [part for part, records in parts.items() if family in records]
    if not kinds:
        families = _families(parts)
        flags = [
            f"--model.{part}.kind"
            for part, records in parts.items()
            if records.keys() & set(families)
        ]
        raise UserError(
            f"model.family is {format_value(family)}: expected {' or '.join(families)}, which is "
            f"short for {' and '.join(flags)}"
        )
    words = remove_option(words, f"--{FAMILY}")
    fields = [f"model.{part}.kind" for part in kinds]
    return [*words, *(f"--{name}={family}" for name in fields if not named.get(name))]


def _families(*tasks: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the kinds of decoders of these tasks, and of encoders for tasks without a decoder."""
    names = (name for parts in tasks for name in parts.get("decoder", parts.get("encoder", ())))
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class ChosenExperiment:
    """Experiment of the recipe that the command line names, with the task and the kinds of its
    options."""

    experiment: Experiment
    messages: tuple[str, ...] = ()
    """Line for each part, and for the data, whose fields in the recipe are not used."""


def choose_experiment(arguments: Sequence[str]) -> ChosenExperiment:
    """Return the experiment of the first argument, with the task and the kinds of the options. It
    has no synthetic data if an option names a file. The columns of a data file are those that its
    inspection finds. UserError for an unknown recipe or kind, or for a file of another task."""
    name, named = arguments[0], typed_values(arguments)
    for choice in recipes.CHOICES:
        _check_once(f"--{choice}", arguments)
    chosen = _choose_kinds(find_experiment(name, named), named)
    inspection = inspect_file(name, named)
    if inspection is not None:
        _check_choice(inspection, named)
        return replace(chosen, messages=(*inspection.lines(), *chosen.messages))
    return _choose_columns(_choose_data(chosen, named), name, named)


def data_after_recipe(arguments: Sequence[str]) -> str | None:
    """Return the data file or folder that follows the name of a recipe, if there is one."""
    if len(arguments) < 2 or not _names_data(arguments[1]) or is_data_file(arguments[0]):
        return None
    return arguments[1]


def find_experiment(name: str, named: Named) -> Experiment:
    """Return the recipe of this name, or the recipe that suits this data file. UserError if there
    is no such recipe or file.

    A file that is not inspected, because its targets are in a second file or because it is a pipe,
    is a file of pairs for the default model. A resumed run has its own configuration."""
    path = Path(name)
    if is_data_file(name):
        own_name = run_name(path) or Experiment.name
        if "resume" in named and (run := _resumed_run(own_name, named)) is not None:
            return replace(run, data=replace(run.data, path=path))
        return experiment_on_file(path, inspect_file(name, named), own_name)
    if name in recipes.names():
        return recipes.load(recipes.find(name))
    if exists(path) and path.is_dir():
        if (path / "config.yaml").exists():
            raise UserError(
                f"{shorten_name(path)} is a run folder: expected a recipe or a file. To continue "
                "the run, use `regard train RECIPE -o FOLDER --resume`"
            )
        raise UserError(
            f"{shorten_name(path)} is a directory: expected a recipe or a file. For a folder of "
            "labelled texts, use `regard train labels FOLDER`"
        )
    if suffix_of(path) in DATA_SUFFIXES or path.suffix == ".gz":
        raise UserError(f"{shorten_name(path)} does not exist: expected a data file")
    return recipes.load(recipes.find(name))


def is_data_file(name: str) -> bool:
    """Return whether the name is a file, and not a recipe file. UserError for a named pipe or a
    device."""
    path = check_name(name)
    if path.suffix in (".yaml", ".yml") or not exists(path) or path.is_dir():
        return False
    check_input(path)
    return True


def inspect_file(name: str, named: Named) -> Inspection | None:
    """Return the inspection of a data file with the options that it needs; None for a recipe, a
    resumed run, a pipe, a JSON file, or if the targets have a file of their own."""
    path = Path(name)
    is_inspected = is_data_file(name) and can_inspect(path)
    if not is_inspected or not NOT_INSPECTED.isdisjoint(named):
        return None
    return inspect(path, named_settings(named), named_value(named, "data.task", TaskName))


def has_help_option(named: Named) -> bool:
    """Whether an option asks for help instead of a training."""
    return any(Typed(flag, ()).name in named for flag in HELP)


def _resumed_run(name: str, named: Named) -> Experiment | None:
    """Return the experiment of the run to resume, if there is one."""
    folder = RunFolder(named_value(named, "output", Path) or Path("runs") / name)
    return folder.experiment() if folder.config.is_file() else None


def _choose_columns(chosen: ChosenExperiment, recipe: str, named: Named) -> ChosenExperiment:
    """Return the experiment of a recipe with the columns of the data file that the options name.
    Lines of SOURCE TAB TARGET need none. UserError if the file is of another task."""
    data = chosen.experiment.data
    path = named_value(named, "data.path", Path) or Path()
    if not can_inspect(path) or not NOT_INSPECTED.isdisjoint(named):
        return chosen
    settings = named_settings(named, data)
    form = recognise(path, settings)
    if form.kind == "text" and form.delimiter is None:
        return chosen
    inspection = inspect(path, settings, data.task)
    has_columns = bool(settings.source_columns and settings.target_columns)
    if not has_columns:
        _check_task(inspection, settings, chosen.experiment)
    _check_choice(inspection, named, data.checks)
    columns = inspection.columns()
    numbers = number_fields(data, inspection.roles.fields)
    columns |= {name: value for name, value in numbers.items() if name not in named}
    if not columns and form.is_plain:
        return chosen
    for name, value in (("source", settings.source_columns), ("target", settings.target_columns)):
        if value:
            columns.pop(f"data.{name}_column", None)
    experiment = replace(chosen.experiment, data=with_fields(data, columns))
    lines = inspection.lines(recipe, getattr(data, "target", None))
    return replace(chosen, experiment=experiment, messages=(*chosen.messages, *lines))


def _check_choice(inspection: Inspection, named: Named, checks: str | None = None) -> None:
    """Raise a UserError for a choice of columns that the user has to make."""
    if not has_help_option(named):
        check_choice(named_value(named, "data.checks", str) or checks, inspection.problem)


def _check_task(inspection: Inspection, settings: TableSettings, experiment: Experiment) -> None:
    """Raise a UserError if a file has captions and the recipe is for texts, or the reverse."""
    task, path = experiment.data.task, inspection.path
    roles = inspect(path, settings).roles
    if roles.task == task or "caption" not in (task, roles.task) or not inspection.num_rows:
        return
    if task == "caption" and inspection.roles.is_recognised:
        return
    names = ", ".join(map(inspection.column, (roles.source, roles.target)))
    noun = roles.title.partition(" (")[0]
    raise UserError(
        f"{shorten_name(path)}: looks like {noun} (columns {names}), but the recipe "
        f"{experiment.name} is for data.task {task}: use `regard train {roles.recipe} "
        f"{shorten_name(path)}`"
    )


def remove_option(words: list[str], flag: str) -> list[str]:
    """Return the words without this option and its value."""
    remaining, skip = list[str](), False
    for word in words:
        if skip:
            skip = False
        elif word == flag:
            skip = True
        elif not word.startswith(f"{flag}="):
            remaining.append(word)
    return remaining


def _choose_kinds(experiment: Experiment, named: Named) -> ChosenExperiment:
    task = named_value(named, "data.task", str)
    task = experiment.data.task if task is None else task
    if task != experiment.data.task:
        usual = recipes.default({"data.task": task})
        data = replace(usual.data, path=experiment.data.path)
        experiment = replace(experiment, data=data, model=usual.model)
    model, lines = experiment.model, list[str]()
    for part, record in model.parts.items():
        name = f"model.{part}.kind"
        kind = named_value(named, name, str)
        kind = record.kind if kind is None else kind
        if name in named and not named[name]:
            raise UsageError(f"--{name} has no value: expected {' or '.join(KINDS[task][part])}")
        model = recipes.with_kind(model, task, part, kind)
        names = all_changed_fields(record)
        if kind != record.kind and names:
            lines.append(
                f"model.{part}.kind is {kind} instead of {record.kind}, so the recipe's other "
                f"fields of model.{part} are not used: {', '.join(names)}"
            )
    return ChosenExperiment(replace(experiment, model=model), tuple(lines))


def _check_once(flag: str, arguments: Sequence[str]) -> None:
    """UsageError for an option that comes twice: its value decides which options there are."""
    num_times = sum(typed.flag == flag for typed in split(arguments))
    if num_times > 1:
        raise UsageError(f"{flag} comes {num_times} times: expected one value, so leave one out")


def _choose_data(chosen: ChosenExperiment, named: Named) -> ChosenExperiment:
    """Return the experiment without the recipe's synthetic data if the options name a file."""
    data = chosen.experiment.data
    name = "mix" if named.get("data.mix") else "path"
    value = "None" if not named.get(f"data.{name}") else named[f"data.{name}"][0]
    if value == "None" or data.synthetic is None or named.get("data.synthetic"):
        return chosen
    line = f"data.{name} {value} replaces the recipe's synthetic data ({data.synthetic})"
    data = replace(data, synthetic=None, synthetic_size=DATA_SECTIONS[data.task]().synthetic_size)
    return ChosenExperiment(replace(chosen.experiment, data=data), (*chosen.messages, line))


def _names_data(word: str) -> bool:
    """Whether an argument after the recipe is a path."""
    path = Path(word)
    return not word.startswith("-") and (path.suffix != "" or exists(path))
