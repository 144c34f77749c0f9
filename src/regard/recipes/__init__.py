"""Recipes: whole experiments as YAML pages, one a file in this folder, or a person's own.

Pages, flags and Python share one set of checks, that of `config`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

import yaml

from regard.config import (
    FAMILIES,
    FITTING,
    TASKS,
    Experiment,
    RecurrentConfig,
)
from regard.config.checks import alternatives, hints_of, parsed, shown
from regard.errors import UserError
from regard.files import check_input, shortened
from regard.recipes.page import Page, read_page

FOLDER = Path(__file__).parent
WORDS = tuple[str, ...]


def names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(name: str) -> Path:
    """The page of a recipe, by its name or as a file; UserError lists what there is."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return check_input(path)
    if name in names():
        return FOLDER / f"{name}.yaml"
    if Path(name).is_file():
        raise UserError(
            f"{name} is no recipe, which is a .yaml file: `regard train {name}` trains on pairs, "
            "`regard recipes` lists the recipes"
        )
    near = difflib.get_close_matches(name, names(), n=1)
    near = near or [known for known in names() if len(name) > 2 and name in known]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UserError(
        f"{shortened(name)} is neither a recipe nor a file: {hint}`regard recipes` lists "
        "the recipes"
    )


def load(path: Path) -> Experiment:
    """Read a recipe. Paths in it that exist beside it are taken from there."""
    return _beside(read(path), path.parent)


def read(path: Path) -> Experiment:
    """Read a recipe's page; its paths stay as they are."""
    return _parsed(read_page(path))


def read_run(path: Path) -> Experiment:
    """Read the page of a run. A page without data.seed is of version 0.1, where training.seed
    decided the split."""
    page = read_page(path)
    experiment = _parsed(page)
    if "data.seed" in page.lines:
        return experiment
    return replace(experiment, data=replace(experiment.data, seed=experiment.training.seed))


def _parsed(page: Page) -> Experiment:
    usual = replace(default(_named(page.values), f"{page.path}: "), name=page.path.stem)
    try:
        return _set(usual, page, page.values, "")
    except UserError as error:
        has_place = str(error).startswith(str(page.path))
        raise error if has_place else UserError(f"{page.path}: {error}") from None


def dump(experiment: Experiment) -> str:
    """The page of an experiment, whole: every field with its value."""
    return yaml.safe_dump(_plain(asdict(experiment)), sort_keys=False, allow_unicode=True)


def flat(page: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field by its full name, such as data.limit, with its value."""
    for name, value in page.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def default(named: Mapping[str, str], place: str) -> Experiment:
    """An experiment of the task and the family that are named, as data.task and model.family, with
    its usual values. Where one is named alone the other is what fits it. UserError for an unknown
    name."""
    for field, known in (("data.task", TASKS), ("model.family", FAMILIES)):
        if field in named and named[field] not in known:
            near = difflib.get_close_matches(named[field], list(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UserError(
                f"{place}{field} is {shown(named[field])}: expected {', '.join(known)}{hint}"
            )
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


def _set(record: Any, page: Page, values: dict[str, Any], prefix: str) -> Any:
    """The record with the values of a page; UserError naming the line of a wrong one."""
    hints, changed = hints_of(record.__class__), {}
    for name, value in values.items():
        full = f"{prefix}{name}"
        if name not in hints:
            near = difflib.get_close_matches(name, list(hints), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(hints)}"
            raise UserError(f"{page.place(full)}: {full} is not a field of a recipe; {hint}")
        section = getattr(record, name)
        if not is_dataclass(section):
            changed[name] = _value(hints[name], value, full, page)
        elif isinstance(value, dict):
            changed[name] = _set(section, page, value, f"{full}.")
        else:
            raise UserError(
                f"{page.place(full)}: {full} is {shown(value)}: expected fields, indented below it"
            )
    return replace(record, **changed)


def _value(hint: Any, value: Any, name: str, page: Page) -> Any:
    """The value of a field, of its type and in its range."""
    if _holds_text(hint):
        return _text(hint, value, name, page)
    words = list(map(str, value if isinstance(value, list) else [value]))
    try:
        return parsed(hint, words)
    except ValueError as error:
        raise UserError(f"{page.place(name)}: {name} is {shown(value)}: {error}") from None


def _holds_text(hint: Any) -> bool:
    return bool({str, Path, WORDS} & set(alternatives(hint)))


def _text(hint: Any, value: Any, name: str, page: Page) -> str | Path | WORDS | None:
    """Texts are never read as numbers: a name such as 1.10 needs quotes in YAML."""
    kinds = alternatives(hint)
    if value is None and NoneType in kinds:
        return None
    words = value if WORDS in kinds and isinstance(value, list) else [value]
    for word in words:
        if not isinstance(word, str):
            raise UserError(
                f"{page.place(name)}: {name}: expected text, but YAML reads {shown(word)} there: "
                "put it in quotes"
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
    if isinstance(value, float):
        return float(value)  # YAML has no place for NumPy's
    return str(value) if isinstance(value, Path) else value
