"""Experiment of `regard train`, determined before the fields of the recipe are parsed.

The task and the kinds of the model's parts decide which options there are, so they are read first:
from the command line, then from the recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from regard import recipes
from regard.cli.parsing.options import split
from regard.config import (
    DATA_SECTIONS,
    KINDS,
    Data,
    Experiment,
)
from regard.config.checks import all_changed_fields, format_value
from regard.corpora.table_settings import (
    check_choice,
    experiment_on_file,
    number_fields,
    run_name,
    table_settings,
    with_fields,
)
from regard.data.files.named_rows import SUFFIXES
from regard.data.files.tables import TableSettings, suffix_of
from regard.data.recognition.formats import recognise
from regard.data.recognition.inspection import Inspection, can_inspect, inspect
from regard.errors import UsageError, UserError
from regard.names import DecimalMark, TargetKind, TaskName
from regard.runs.folder import RunFolder
from regard.storage.files import check_input, check_name, exists, shorten_name

HELP = {"-h", "--help", "--help-all"}
FAMILY = "--model.family"
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
    family = option_values(words, FAMILY).get(FAMILY)
    if family is None:
        if FAMILY in words:
            expected = " or ".join(_families(*KINDS.values()))
            raise UsageError(f"{FAMILY} has no value: expected {expected}")
        return words
    typed_task = option_values(words, "--data.task").get("--data.task")
    task = typed_task or find_experiment(words[0], words).data.task
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
    words = remove_option(words, FAMILY)
    flags = [f"--model.{part}.kind" for part in kinds]
    typed = option_values(words, *flags)
    return [*words, *(word for flag in flags if flag not in typed for word in (flag, family))]


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
    chosen = _choose_kinds(find_experiment(arguments[0], arguments), arguments)
    inspection = inspect_file(arguments[0], arguments)
    if inspection is not None:
        _check_choice(inspection, arguments)
        return replace(chosen, messages=(*inspection.lines(), *chosen.messages))
    return _choose_columns(_choose_data(chosen, arguments), arguments)


def data_after_recipe(arguments: Sequence[str]) -> str | None:
    """Return the data file or folder that follows the name of a recipe, if there is one."""
    if len(arguments) < 2 or not _names_data(arguments[1]) or is_data_file(arguments[0]):
        return None
    return arguments[1]


def find_experiment(name: str, arguments: Sequence[str] = ()) -> Experiment:
    """Return the recipe of this name, or the recipe that suits this data file. UserError if there
    is no such recipe or file.

    A file that is not inspected, because its targets are in a second file or because it is a pipe,
    is a file of pairs for the default model. A resumed run has its own configuration."""
    path = Path(name)
    if is_data_file(name):
        own_name = run_name(path) or Experiment.name
        if "--resume" in arguments and (run := _resumed_run(own_name, arguments)) is not None:
            return replace(run, data=replace(run.data, path=path))
        return experiment_on_file(path, inspect_file(name, arguments), own_name)
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


def inspect_file(name: str, arguments: Sequence[str]) -> Inspection | None:
    """Return the inspection of a data file with the options that it needs; None for a recipe, a
    resumed run, a pipe, a JSON file, or if the targets have a file of their own."""
    path = Path(name)
    is_inspected = is_data_file(name) and can_inspect(path)
    if not is_inspected or {"--resume", "--data.target-path"} & _words(arguments).keys():
        return None
    task = option_values(arguments, "--data.task").get("--data.task")
    known = cast(TaskName, task) if task in get_args(TaskName) else None
    return inspect(path, _table_settings(arguments), known)


def option_values(arguments: Sequence[str], *flags: str) -> dict[str, str]:
    """Return the values of these options as they are typed. No entry for an option without one."""
    words = _words(arguments)
    return {flag: words[flag][0] for flag in flags if words.get(flag)}


def has_help_option(arguments: Sequence[str]) -> bool:
    """Whether an option asks for help instead of a training."""
    return not HELP.isdisjoint(arguments)


def _words(arguments: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the words after each option, up to the next option."""
    return {typed.flag: typed.words for typed in split(arguments)}


def _table_settings(arguments: Sequence[str], data: Data | None = None) -> TableSettings:
    """Return the options about the format and the columns of a file, by default those of the
    recipe's data."""
    settings = TableSettings() if data is None else table_settings(data)
    names = ("encoding", "delimiter", "sheet")
    flags = {f"--data.{name}": name for name in names}
    changed: dict[str, Any] = {
        flags[flag]: value for flag, value in option_values(arguments, *flags).items()
    }
    for side in ("source", "target"):
        if values := _words(arguments).get(f"--data.{side}-column"):
            changed[f"{side}_columns"] = tuple(values)
    kind = option_values(arguments, "--data.target").get("--data.target")
    if kind in get_args(TargetKind):
        changed["target"] = kind
    if features := _words(arguments).get("--data.feature-columns"):
        changed["feature_columns"] = tuple(features)
    mark = option_values(arguments, "--data.decimal-mark").get("--data.decimal-mark")
    if mark in get_args(DecimalMark):
        changed["decimal_mark"] = mark
    switches = {"--data.header": True, "--data.no-header": False}
    for typed in split(arguments):
        if typed.flag in switches:
            changed["header"] = switches[typed.flag] and typed.words[:1] != ["False"]
    return replace(settings, **changed)


def _resumed_run(name: str, arguments: Sequence[str]) -> Experiment | None:
    """Return the experiment of the run to resume, if there is one."""
    values = option_values(arguments, "-o", "--output")
    folder = RunFolder(Path(values.get("-o", values.get("--output", f"runs/{name}"))))
    return folder.experiment() if folder.config.is_file() else None


def _choose_columns(chosen: ChosenExperiment, arguments: Sequence[str]) -> ChosenExperiment:
    """Return the experiment of a recipe with the columns of the data file that the arguments name.
    Lines of SOURCE TAB TARGET need none. UserError if the file is of another task."""
    data = chosen.experiment.data
    path = Path(option_values(arguments, "--data.path").get("--data.path", ""))
    if not can_inspect(path) or {"--resume", "--data.target-path"} & _words(arguments).keys():
        return chosen
    settings = _table_settings(arguments, data)
    form = recognise(path, settings)
    if form.kind == "text" and form.delimiter is None:
        return chosen
    inspection = inspect(path, settings, data.task)
    has_columns = bool(settings.source_columns and settings.target_columns)
    if not has_columns:
        _check_task(inspection, settings, chosen.experiment)
    _check_choice(inspection, arguments, data.checks)
    columns = inspection.columns()
    numbers = number_fields(data, inspection.roles.fields)
    flags = {flag.removeprefix("--").replace("-", "_") for flag in _words(arguments)}
    columns |= {name: value for name, value in numbers.items() if name not in flags}
    if not columns and form.is_plain:
        return chosen
    for name, value in (("source", settings.source_columns), ("target", settings.target_columns)):
        if value:
            columns.pop(f"data.{name}_column", None)
    experiment = replace(chosen.experiment, data=with_fields(data, columns))
    lines = inspection.lines(arguments[0], getattr(data, "target", None))
    return replace(chosen, experiment=experiment, messages=(*chosen.messages, *lines))


def _check_choice(
    inspection: Inspection, arguments: Sequence[str], checks: str | None = None
) -> None:
    """Raise a UserError for a choice of columns that the user has to make."""
    if not has_help_option(arguments):
        typed = option_values(arguments, "--data.checks").get("--data.checks")
        check_choice(typed or checks, inspection.problem)


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


def _choose_kinds(experiment: Experiment, arguments: Sequence[str]) -> ChosenExperiment:
    task = option_values(arguments, "--data.task").get("--data.task", experiment.data.task)
    if task != experiment.data.task:
        usual = recipes.default({"data.task": task})
        data = replace(usual.data, path=experiment.data.path)
        experiment = replace(experiment, data=data, model=usual.model)
    model, lines = experiment.model, list[str]()
    for part, record in model.parts.items():
        flag = f"--model.{part}.kind"
        if flag in arguments and flag not in option_values(arguments, flag):
            raise UsageError(f"{flag} has no value: expected {' or '.join(KINDS[task][part])}")
        _check_once(flag, arguments)
        kind = option_values(arguments, flag).get(flag, record.kind)
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


def _choose_data(chosen: ChosenExperiment, arguments: Sequence[str]) -> ChosenExperiment:
    """Return the experiment without the recipe's synthetic data if the arguments name a file."""
    data = chosen.experiment.data
    values = option_values(arguments, "--data.path", "--data.mix", "--data.synthetic")
    name = "mix" if "--data.mix" in values else "path"
    value = values.get(f"--data.{name}", "None")
    if value == "None" or data.synthetic is None or "--data.synthetic" in values:
        return chosen
    line = f"data.{name} {value} replaces the recipe's synthetic data ({data.synthetic})"
    data = replace(data, synthetic=None, synthetic_size=DATA_SECTIONS[data.task]().synthetic_size)
    return ChosenExperiment(replace(chosen.experiment, data=data), (*chosen.messages, line))


def _names_data(word: str) -> bool:
    """Whether an argument after the recipe is a path."""
    path = Path(word)
    return not word.startswith("-") and (path.suffix != "" or exists(path))
