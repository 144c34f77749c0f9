"""Experiment of `regard train`, determined before the fields of the recipe are parsed.

The task and the kinds of the model's parts decide which options there are, so they are read first:
from the command line, then from the recipe.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path

from regard import recipes
from regard.config import DATA_SECTIONS, KINDS, DataConfig, Experiment
from regard.config.checks import changed_fields, format_value
from regard.errors import UsageError, UserError
from regard.files import check_input, check_name, shortened

FAMILY = "--model.family"
"""Short for the kind of every part that has this kind."""


def expanded(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a data file after the recipe as --data.path, and with
    --model.family as the kinds of the parts whose own kind is not an argument."""
    words = list(arguments)
    if "" in words[:2]:
        raise UsageError(
            "an argument is empty: expected the name of a recipe or a file, as in "
            "`regard train words pairs.tsv`"
        )
    if len(words) > 1 and _names_data(words[1]) and not is_pairs(words[0]):
        words[1:2] = ["--data.path", words[1]]
    family = values_of(words, FAMILY).get(FAMILY)
    if family is None:
        if FAMILY in words:
            raise UsageError(f"{FAMILY} has no value: expected recurrent or transformer")
        return words
    task = values_of(words, "--data.task").get("--data.task") or named(words[0]).data.task
    parts = KINDS.get(task, {})
    kinds = [part for part, known in parts.items() if family in known]
    if not kinds:
        flags = [
            f"--model.{part}.kind"
            for part, known in parts.items()
            if {"recurrent", "transformer"} & known.keys()
        ]
        raise UserError(
            f"model.family is {format_value(family)}: expected recurrent or transformer, which is "
            f"short for {' and '.join(flags)}"
        )
    words = _without(words, FAMILY)
    flags = [f"--model.{part}.kind" for part in kinds]
    chosen = values_of(words, *flags)
    return [*words, *(word for flag in flags if flag not in chosen for word in (flag, family))]


@dataclass(frozen=True)
class Asked:
    """The experiment of the first argument and the kinds that options name, with a line for every
    field of the recipe that they replace."""

    experiment: Experiment
    replaced: tuple[str, ...] = ()


def asked_of(arguments: Sequence[str]) -> Asked:
    """Return the recipe that the first argument names, with the task and the kinds that options
    name, and without its synthetic data if an option names a file."""
    return _on_file(_with_kinds(named(arguments[0]), arguments), arguments)


def named(name: str) -> Experiment:
    """Return the recipe of this name, or the default one on a file of pairs."""
    path = Path(name)
    if is_pairs(name):
        stem = path.name.lstrip(".").split(".")[0]
        return Experiment(name=stem or Experiment.name, data=DataConfig(path=path))
    if name in recipes.names():
        return recipes.load(recipes.find(name))
    if _exists(path) and path.is_dir():
        if (path / "config.yaml").exists():
            raise UserError(
                f"{shortened(path)} is a run folder: expected a recipe or a file. To continue the "
                "run, use `regard train RECIPE -o FOLDER --resume`"
            )
        raise UserError(
            f"{shortened(path)} is a directory: expected a recipe or a file. For a folder of "
            "labelled texts, use `regard train labels FOLDER`"
        )
    if path.suffix in (".tsv", ".txt", ".gz"):
        raise UserError(f"{shortened(path)} does not exist: a file of pairs was expected")
    return recipes.load(recipes.find(name))


def is_pairs(name: str) -> bool:
    """Whether the name is a file of pairs. UserError for a named pipe or a device."""
    path = check_name(name)
    if path.suffix in (".yaml", ".yml") or not _exists(path) or path.is_dir():
        return False
    check_input(path)
    return True


def values_of(arguments: Sequence[str], *flags: str) -> dict[str, str]:
    """Return the values after these options."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    pairs = ((flag, value) for flag, value in pairwise(words) if flag in flags)
    return {flag: value for flag, value in pairs if not value.startswith("--")}


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether an option asks for help instead of a training."""
    return bool({"-h", "--help", "--help-all"} & set(arguments))


def _without(words: list[str], flag: str) -> list[str]:
    """Return the words without an option and its value."""
    remaining, skip = list[str](), False
    for word in words:
        if skip:
            skip = False
        elif word == flag:
            skip = True
        elif not word.startswith(f"{flag}="):
            remaining.append(word)
    return remaining


def _with_kinds(experiment: Experiment, arguments: Sequence[str]) -> Asked:
    task = values_of(arguments, "--data.task").get("--data.task", experiment.data.task)
    if task != experiment.data.task:
        usual = recipes.default({"data.task": task})
        data = replace(usual.data, path=experiment.data.path)
        experiment = replace(experiment, data=data, model=usual.model)
    model, lines = experiment.model, list[str]()
    for part, record in model.parts.items():
        flag = f"--model.{part}.kind"
        if flag in arguments and flag not in values_of(arguments, flag):
            raise UsageError(f"{flag} has no value: expected {' or '.join(KINDS[task][part])}")
        _check_once(flag, arguments)
        kind = values_of(arguments, flag).get(flag, record.kind)
        model = recipes.with_kind(model, task, part, kind)
        names = changed_fields(record, *(field.name for field in fields(record)))
        if kind != record.kind and names:
            lines.append(
                f"model.{part}.kind is {kind} instead of {record.kind}, so the recipe's other "
                f"fields of model.{part} are not used: {', '.join(names)}"
            )
    return Asked(replace(experiment, model=model), tuple(lines))


def _check_once(flag: str, arguments: Sequence[str]) -> None:
    """UsageError for an option that comes twice: its value decides which options there are."""
    num_times = sum(argument.partition("=")[0] == flag for argument in arguments)
    if num_times > 1:
        raise UsageError(f"{flag} comes {num_times} times: expected one value, so leave one out")


def _on_file(chosen: Asked, arguments: Sequence[str]) -> Asked:
    """Return the experiment without the recipe's synthetic data if the arguments name a file."""
    data = chosen.experiment.data
    values = values_of(arguments, "--data.path", "--data.synthetic")
    path = values.get("--data.path", "None")
    if path == "None" or data.synthetic is None or "--data.synthetic" in values:
        return chosen
    line = f"data.path {path} replaces the recipe's synthetic data ({data.synthetic})"
    data = replace(data, synthetic=None, synthetic_size=DATA_SECTIONS[data.task]().synthetic_size)
    return Asked(replace(chosen.experiment, data=data), (*chosen.replaced, line))


def _names_data(word: str) -> bool:
    """Whether an argument after the recipe is a path."""
    path = Path(word)
    return not word.startswith("-") and (path.suffix != "" or _exists(path))


def _exists(path: Path) -> bool:
    """Whether the path exists. A name that is too long for a file does not."""
    try:
        return path.exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
