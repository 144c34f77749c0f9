"""Recipes: experiments as YAML files. A file has one recipe.

Recipes, command-line options and Python share the checks of `config`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import yaml

from regard.config import (
    DATA_SECTIONS,
    KINDS,
    MODELS,
    Experiment,
    ModelConfig,
    label_weights,
    resolve,
)
from regard.config.checks import alternatives, choices_of, find_problem, format_value, parse_value
from regard.config.corpora import is_pattern, with_paths
from regard.config.fields import field_hints, foreign_field, with_values
from regard.errors import UserError
from regard.names import TASK_RECIPES
from regard.recipes.yaml_file import LOADER, RecipeFile, read_recipe_file
from regard.storage.files import check_input, exists, shorten_name

FORMAT = 3
"""Format of the configurations that this version reads and writes."""
FOLDER = Path(__file__).parent
GROUPS = {
    "Start here, with a file of your own": ("letters", "words", "labels", "captions", "values"),
    "Data sets": (
        "g2p",
        "tatoeba-best",
        "multi30k-bytenet",
        "multi30k-convs2s",
        "multi30k-deep-att",
        "multi30k-gnmt",
        "multi30k-gnmt-experts",
        "multi30k-gnmt-rewards",
        "multi30k-luong",
        "multi30k-transformer",
        "multi30k-transformer-experts",
        "trec",
    ),
    "Papers": (
        "tatoeba-bahdanau",
        "tatoeba-luong",
        "tatoeba-plain",
        "multi30k-bahdanau",
    ),
    "Papers, not trained by us": (
        "wmt14-bytenet",
        "wmt14-convs2s",
        "wmt14-deep-att",
        "wmt14-gnmt",
        "wmt14-moe",
        "wmt14-transformer-base",
        "wmt14-transformer-big",
    ),
    "Synthetic tasks": (
        "numbers",
        "copy",
        "reverse",
        "sort",
        "drinks",
        "drinks-total",
        "series",
        "shapes-caption",
        "shapes-caption-rewards",
        "toy",
        "toy-eos",
    ),
}
"""The recipes that come with the package, in the order of `regard recipes`."""
WORDS = tuple[str, ...]
CHOICES = ("data.task", "model.encoder.kind", "model.decoder.kind", "model.head.kind")
"""Fields that decide which other fields an experiment has."""
DEFAULT_TASK = "translate"
LINE_WIDTH = 90
"""Width of the lines of printed YAML, up to the word that exceeds it."""


def names() -> list[str]:
    """Return the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(name: str) -> Path:
    """Return the file of a recipe, from its name or its path. UserError for any other word."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return check_input(path)
    if name in names():
        return FOLDER / f"{name}.yaml"
    if Path(name).is_file():
        raise UserError(
            f"{name} is not a recipe: expected a name or a .yaml file. `regard recipes` lists the "
            f"names; `regard train {name}` trains on a file of pairs"
        )
    near = list(TASK_RECIPES.get(name, ())) or difflib.get_close_matches(name, names(), n=1)
    near = near or [known for known in names() if len(name) > 2 and name in known]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UserError(
        f"{shorten_name(name)} is neither a recipe nor a file: {hint}`regard recipes` lists "
        "the recipes"
    )


def title(path: Path) -> str:
    """Return the beginning of a recipe's description, up to a full stop or colon."""
    about = yaml.load(path.read_text(encoding="utf8"), Loader=LOADER).get("about", "")
    return re.split(r"(?<! al)[.:](?:\s|$)", str(about).strip(), maxsplit=1)[0]


def load(path: Path) -> Experiment:
    """Load a recipe. A relative path in it is joined to the folder of the recipe if it exists
    there. Sizes that parts inherit are not set."""
    return _beside(_parsed(read_recipe_file(path), is_run=False), path.parent)


def load_run(path: Path) -> Experiment:
    """Load the configuration of a run. Every size is set. Paths are unchanged. UserError for a
    configuration of another format."""
    return resolve(_parsed(read_recipe_file(path), is_run=True))


def _parsed(file: RecipeFile, *, is_run: bool) -> Experiment:
    try:
        _check_format(file.values.get("format", None if is_run else FORMAT), is_run=is_run)
        values = _flat_once(file.values)
        values.pop("format", None)
        usual = replace(default(_named(values)), name=file.path.stem)
        return _set(usual, file, values)
    except UserError as error:
        has_place = str(error).startswith(str(file.path))
        place = file.place(str(error).partition(" ")[0])
        raise error if has_place else UserError(f"{place}: {error}") from None


def _check_format(number: Any, *, is_run: bool) -> None:
    """Raise a UserError for a recipe, or the configuration of a run, of another format."""
    if type(number) is int and number == FORMAT:
        return
    if type(number) is int and number > FORMAT:
        remedy = "install a newer version of Regard"
    elif is_run:
        remedy = "the run was trained by a version before 0.2: train it again"
    else:
        remedy = "leave the line out"
    value = "missing" if number is None else format_value(number)
    raise UserError(f"format is {value}: expected {FORMAT}; {remedy}")


class _Folded(str):
    """Text that YAML writes as a folded block."""


class _Dumper(yaml.SafeDumper):
    """Dumper that also writes folded blocks."""


_Dumper.add_representer(
    _Folded,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">"),
)


def dump(experiment: Experiment) -> str:
    """Return an experiment as YAML: the format, then every field with its value. A description of
    several lines is a folded block, as in recipe files."""
    values = {"format": FORMAT, **_plain(asdict(experiment))}
    if experiment.about.endswith("\n"):
        values["about"] = _Folded(experiment.about)
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LINE_WIDTH)


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every field by its full name, such as data.limit, with its value. An empty map may be a
    section, so it is a value too."""
    for name, value in values.items():
        if isinstance(value, dict) and value and f"{prefix}{name}" != label_weights.NAME:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _flat_once(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `flat` as a dictionary. UserError for a field with two values: in a section, and by
    its full name."""
    values: dict[str, Any] = {}
    for name, value in flat(settings):
        if name in values:
            raise UserError(f"{name} has two values: leave one out")
        values[name] = value
    return values


def default(named: Mapping[str, str]) -> Experiment:
    """Return an experiment of the task and the kinds that are named, as data.task and
    model.encoder.kind, with the default values of all other fields. UserError for an unknown
    name."""
    task = named.get("data.task", DEFAULT_TASK)
    if task not in DATA_SECTIONS:
        raise UserError(
            f"data.task is {format_value(task)}: {_expected(task, list(DATA_SECTIONS))}"
        )
    model = MODELS[task]()
    for part in KINDS[task]:
        kind = named.get(f"model.{part}.kind")
        if kind is not None:
            model = with_kind(model, task, part, kind)
    return Experiment(data=DATA_SECTIONS[task](), model=model)


def with_kind(model: ModelConfig, task: str, part: str, kind: str) -> ModelConfig:
    """Return the model with this part of another kind, with that kind's default values. A part
    that is of this kind already stays the same. UserError for an unknown kind."""
    kinds = KINDS[task][part]
    if model.parts[part].kind == kind:
        return model
    if kind not in kinds:
        raise UserError(
            f"model.{part}.kind is {format_value(kind)}: {_expected(kind, list(kinds), task)}"
        )
    changed: dict[str, Any] = {part: kinds[kind]()}
    return replace(model, **changed)


def with_settings(experiment: Experiment, settings: Mapping[str, object]) -> Experiment:
    """Return the experiment with these values of its fields, by full name, such as training.epochs,
    or by section. Another task or kind of a part brings its default values.

    UserError as for a recipe file, for an unknown field or an invalid value."""
    values = {name: _from_python(value) for name, value in _flat_once(settings).items()}
    named = _named(values)
    task = named.get("data.task", experiment.data.task)
    if task != experiment.data.task:
        usual = default(named)
        data = replace(usual.data, path=experiment.data.path)
        experiment = replace(experiment, data=data, model=usual.model)
    model = experiment.model
    for part in KINDS[task]:
        kind = named.get(f"model.{part}.kind")
        model = model if kind is None else with_kind(model, task, part, kind)
    file = RecipeFile(Path("settings"), {}, {}, is_yaml=False)
    return _set(replace(experiment, model=model), file, values)


def _from_python(value: Any) -> Any:
    """Return a value of Python in the form in which YAML has it."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of NumPy
        return value.tolist()
    if isinstance(value, tuple | list):
        return list(map(_from_python, value))
    return str(value) if isinstance(value, Path) else value


def _expected(name: str, known: list[str], task: str = "") -> str:
    """Return the end of a message about an unknown name."""
    *first, last = known
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    reason = f" (data.task is {task})" if task and not near else ""
    return f"expected {', '.join(first)} or {last}{reason}{hint}"


def _named(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the task and the kinds that a recipe names."""
    return {name: str(value) for name, value in values.items() if name in CHOICES}


def _set(experiment: Experiment, file: RecipeFile, values: Mapping[str, Any]) -> Experiment:
    """Return the experiment with the values of a recipe, by full name. UserError for an invalid
    value, with its line."""
    hints = dict(field_hints(experiment))
    parsed = {}
    for name, value in values.items():
        if isinstance(value, dict) and any(known.startswith(f"{name}.") for known in hints):
            continue  # a section without fields
        if name not in hints:
            raise UserError(f"{file.place(name)}: {_unknown(experiment, hints, name, value)}")
        parsed[name] = _value(hints[name], value, name, file)
    return with_values(experiment, parsed)


def _unknown(experiment: Experiment, hints: Mapping[str, Any], name: str, value: object) -> str:
    """Return the message about a name that is not among the fields of the experiment."""
    if any(known.startswith(f"{name}.") for known in hints):
        kinds = choices_of(hints.get(f"{name}.kind"))
        kind = f", as in `{name.rpartition('.')[2]}: {{kind: {kinds[0]}}}`" if kinds else ""
        return f"{name} is {format_value(value)}: expected fields, indented below it{kind}"
    above, _, last = name.rpartition(".")
    if above in hints:
        return f"{above} has a field {last}: {find_problem(hints[above], {})}"
    if foreign := foreign_field(experiment, name):
        return f"{name} is a field of {foreign}"
    prefix, known = f"{name}.", list[str]()
    while not known:  # the fields of the innermost section that exists
        prefix = "".join(prefix.rpartition(".")[0].rpartition(".")[:2])
        below = (field.removeprefix(prefix) for field in hints if field.startswith(prefix))
        known = list(dict.fromkeys(field.partition(".")[0] for field in below))
    first = name.removeprefix(prefix).partition(".")[0]
    near = difflib.get_close_matches(first, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return f"{prefix}{first} is not a field of a recipe; {hint}"


def _value(hint: Any, value: Any, name: str, file: RecipeFile) -> Any:
    """Return the value of a field, of its type and in its range."""
    if _holds_text(hint):
        return _text(hint, value, name, file)
    words = map(_word, value if isinstance(value, list) else [value])
    try:
        return parse_value(hint, [*words])
    except ValueError as error:
        raise UserError(f"{file.place(name)}: {name} is {format_value(value)}: {error}") from None


def _word(value: Any) -> str:
    """Return a value as it is typed."""
    try:
        return str(value)
    except ValueError:  # of thousands of digits, which no field accepts
        return format_value(value)


def _holds_text(hint: Any) -> bool:
    return bool({str, Path, WORDS} & set(alternatives(hint)))


def _text(hint: Any, value: Any, name: str, file: RecipeFile) -> str | Path | WORDS | None:
    """Texts are never read as numbers: a name such as 1.10 needs quotes in YAML."""
    kinds = alternatives(hint)
    if value is None and NoneType in kinds:
        return None
    if name == label_weights.NAME and isinstance(value, dict):
        value = [f"{label}:{weight}" for label, weight in value.items()]
    words = value if WORDS in kinds and isinstance(value, list) else [value]
    for word in words:
        if not isinstance(word, str):
            reason = "but YAML reads" if file.is_yaml else "got"
            raise UserError(
                f"{file.place(name)}: {name}: expected text, {reason} {format_value(word)}"
                f"{' there' if file.is_yaml else ''}: put it in quotes"
            )
    if WORDS in kinds:
        return tuple(words)
    return Path(value) if Path in kinds else str(value)


def _beside(record: Any, folder: Path) -> Any:
    """Return the record with relative paths joined to the folder, if they exist there."""
    changed = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            changed[field.name] = _beside(value, folder)
        elif isinstance(value, Path):
            changed[field.name] = _joined(value, folder)
        elif field.name == "mix" and value and "," not in str(folder):
            changed[field.name] = tuple(
                with_paths(entry, partial(_joined, folder=folder)) for entry in value
            )
    return replace(record, **changed)


def _joined(path: Path, folder: Path) -> Path:
    """Return a relative path joined to the folder, if a file exists there, or if files there match
    its pattern."""
    if path.is_absolute():
        return path
    is_found = exists(folder / path) and (folder / path).is_file()
    if not is_found and is_pattern(path):
        with suppress(ValueError):  # no pattern
            is_found = any(folder.glob(str(path)))
    return folder / path if is_found else path


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return float(value)  # YAML has no place for NumPy's
    return str(value) if isinstance(value, Path) else value
