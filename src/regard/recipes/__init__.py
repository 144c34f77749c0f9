"""Recipes: whole experiments as YAML pages, one a file in this folder, or a person's own.

A page is turned into command-line flags and parsed by the parser of the command line itself, so
that one set of checks serves both. Only texts and paths are taken as they stand: a word such as --
would mean something else to that parser.
"""

from __future__ import annotations

import contextlib
import difflib
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import tyro
import yaml

from regard.config import (
    FAMILIES,
    FITTING,
    TASKS,
    Experiment,
    RecurrentConfig,
)
from regard.errors import UserError

FOLDER = Path(__file__).parent
WORDS = tuple[str, ...]


def names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(name: str) -> Path:
    """The page of a recipe, by its name or as a file; UserError lists what there is."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UserError(f"{path}: there is no such recipe file")
        return path
    if name in names():
        return FOLDER / f"{name}.yaml"
    if Path(name).is_file():
        raise UserError(
            f"{name} is no recipe, which is a .yaml file: `regard train {name}` trains on pairs, "
            "`regard recipes` lists the recipes"
        )
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(
        f"{name} is neither a recipe nor a file: {hint}`regard recipes` lists the recipes"
    )


def load(path: Path) -> Experiment:
    """Read a recipe. Paths in it that exist beside it are taken from there."""
    return _beside(read(path), path.parent)


def read(path: Path) -> Experiment:
    """Read a recipe's page; its paths stay as they are."""
    return _parse_page(_page(path), path)


def read_run(path: Path) -> Experiment:
    """Read the page of a run. A page without data.seed is of version 0.1, where training.seed
    decided the split."""
    page = _page(path)
    experiment = _parse_page(page, path)
    if "seed" in page.get("data", {}):
        return experiment
    return replace(experiment, data=replace(experiment.data, seed=experiment.training.seed))


def _page(path: Path) -> dict[str, Any]:
    try:
        page = yaml.safe_load(path.read_text(encoding="utf8")) or {}
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: save it as UTF-8") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(page, dict):
        raise UserError(f"{path}: a recipe is a page of `field: value` lines")
    return page


def _parse_page(page: dict[str, Any], path: Path) -> Experiment:
    usual = replace(default(_named(page), f"{path}: "), name=path.stem)
    _check_names(page, usual, path, "")
    usual = _take_texts(page, usual, f"{path}: ")
    return parse(list(_flags(page)), usual, path)


def parse(flags: list[str], default: Experiment, path: Path) -> Experiment:
    """Parse flags, naming the field of the page that is wrong."""
    try:
        return _cli(flags, default)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except SystemExit:
        for field, *values in _one_by_one(flags):
            try:
                _cli([field, *values], default)
            except SystemExit as error:
                name, came = field.removeprefix("--"), " ".join(values)
                raise UserError(f"{path}: {name}: {came!r} is not a value it can have") from error
        raise


def dump(experiment: Experiment) -> str:
    """The page of an experiment, whole: every field with its value."""
    return yaml.safe_dump(_plain(asdict(experiment)), sort_keys=False, allow_unicode=True)


def _cli(flags: list[str], default: Experiment) -> Experiment:
    with contextlib.redirect_stderr(io.StringIO()):
        return tyro.cli(tyro.conf.AvoidSubcommands[Experiment], args=flags, default=default)


def flat(page: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field by its full name, such as data.limit, with its value."""
    for name, value in page.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _flags(page: dict[str, Any]) -> Iterator[str]:
    for field, value in flat(page):
        if isinstance(value, bool):
            record, dot, name = field.rpartition(".")
            yield f"--{field}" if value else f"--{record}{dot}no-{name}"
        else:
            yield f"--{field}"
            yield from map(str, value if isinstance(value, list) else [value])


def _one_by_one(flags: list[str]) -> list[list[str]]:
    """Each flag with its own values."""
    single: list[list[str]] = []
    for flag in flags:
        if flag.startswith("--"):
            single.append([flag])
        else:
            single[-1].append(flag)
    return single


def default(named: Mapping[str, str], place: str) -> Experiment:
    """An experiment of the task and the family that are named, as data.task and model.family, with
    its usual values. Where one is named alone the other is what fits it. UserError for an unknown
    name."""
    for field, known in (("data.task", TASKS), ("model.family", FAMILIES)):
        if field in named and named[field] not in known:
            raise UserError(f"{place}{field} is {named[field]}: there are {', '.join(known)}")
    family = named.get("model.family")
    task = named.get("data.task") or next(
        task for task, families in FITTING.items() if (family or RecurrentConfig.family) in families
    )
    return Experiment(data=TASKS[task](), model=FAMILIES[family or FITTING[task][0]]())


def _named(page: dict[str, Any]) -> dict[str, str]:
    """Which sections a page says that it has."""
    found = {}
    for section, field in (("data", "task"), ("model", "family")):
        held = page.get(section)
        if isinstance(held, dict) and field in held:
            found[f"{section}.{field}"] = str(held[field])
    return found


def _check_names(page: dict[str, Any], record: Any, path: Path, prefix: str) -> None:
    known = get_type_hints(type(record))
    for name, value in page.items():
        if name not in known:
            near = difflib.get_close_matches(str(name), list(known), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UserError(f"{path}: {prefix}{name} is not a field of a recipe; {hint}")
        section = getattr(record, name)
        if is_dataclass(section):
            if not isinstance(value, dict):
                raise UserError(f"{path}: {prefix}{name} holds fields, but came as {value!r}")
            _check_names(value, section, path, f"{prefix}{name}.")
        elif isinstance(value, bool) and known[name] is not bool and not _holds_text(known[name]):
            raise UserError(f"{path}: {prefix}{name}: {value} is not a value it can have")


def _holds_text(hint: Any) -> bool:
    return bool({str, Path, WORDS} & {hint, *get_args(hint)})


def _take_texts(page: dict[str, Any], record: Any, prefix: str) -> Any:
    """The record with the texts and paths of the page, which are taken out of it."""
    hints, changed = get_type_hints(type(record)), {}
    for name, value in list(page.items()):
        hint, where = hints[name], f"{prefix}{name}"
        section = getattr(record, name)
        if is_dataclass(section):
            changed[name] = _take_texts(value, section, f"{where}.")
        elif _holds_text(hint):
            changed[name] = _text(page.pop(name), {hint, *get_args(hint)}, where)
    return replace(record, **changed)


def _text(value: Any, kinds: set[Any], where: str) -> str | Path | tuple[str, ...] | None:
    if value is None and NoneType in kinds:
        return None
    words = value if WORDS in kinds and isinstance(value, list) else [value]
    for word in words:
        if not isinstance(word, str):
            raise UserError(
                f"{where}: expected text, but YAML reads {word!r} there: put it in quotes"
            )
    if WORDS in kinds:
        return tuple(words)
    return Path(value) if Path in kinds else str(value)


def _beside(record: Any, folder: Path) -> Any:
    """The record with every relative path that exists in the folder taken from there."""
    changed = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            changed[field.name] = _beside(value, folder)
        elif isinstance(value, Path) and not value.is_absolute() and (folder / value).is_file():
            changed[field.name] = folder / value
    return replace(record, **changed)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value
