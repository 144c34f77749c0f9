"""Settings by which the files of a configuration are read, fields that a file decides, and recipes
on data files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import recipes
from regard.config import DATA_SECTIONS, ClassificationDataConfig, Data, DataConfig, Experiment
from regard.config.checks import alternatives, field_types, parse_value
from regard.data.files.tables import TableSettings, suffix_of
from regard.errors import UserError
from regard.names import FORMAT
from regard.storage.files import resolved

if TYPE_CHECKING:
    from regard.data.recognition.inspection import Inspection

COLUMNS = {"source_columns": "source_column", "target_columns": "target_column"}
"""Fields of a configuration that have other names than those of the settings of a table."""


def table_settings(config: Data) -> TableSettings:
    """Return the format and the columns of a configuration. None: recognised from each file."""
    return TableSettings(
        encoding=config.encoding,
        delimiter=config.delimiter,
        header=config.header,
        sheet=config.sheet,
        source_columns=columns(config.source_column),
        target_columns=columns(config.target_column),
        feature_columns=getattr(config, "feature_columns", None),
        decimal_mark=getattr(config, "decimal_mark", None),
    )


def named_value(named: Mapping[str, Any], name: str, hint: Any) -> Any:
    """Return the value of a field in settings or in the words of options, by its full name. None
    without a value, and for one that the annotation rejects, which is reported when it is set."""
    value = named.get(name)
    words = [str(word) for word in (value if isinstance(value, list | tuple) else [value])]
    if not words and bool in alternatives(hint):
        words = ["True"]
    try:
        return None if value is None else parse_value(hint, words)
    except ValueError:
        return None


def named_settings(named: Mapping[str, Any], data: Data | None = None) -> TableSettings:
    """Return the format and the columns in settings or in the words of options, by default those of
    a configuration."""
    changed = {
        name: value
        for name, hint in field_types(TableSettings).items()
        if (value := named_value(named, f"data.{COLUMNS.get(name, name)}", hint)) is not None
    }
    return replace(TableSettings() if data is None else table_settings(data), **changed)


def check_choice(checks: str | None, problem: str) -> None:
    """Raise a UserError for a choice of columns that the user has to make, unless data.checks is
    warn."""
    if problem and checks != "warn":
        raise UserError(f"{problem}; to train anyway: --data.checks warn")


def settings_for(path: Path, data: Data, options: object) -> TableSettings:
    """Return the format and the columns that options set for a file. The columns are by default
    those of the training, and so is the format of the file that was trained on; the format of
    another file is recognised."""
    settings = table_settings(data)
    if data.path is None or resolved(data.path) != resolved(path):
        settings = replace(settings, **dict.fromkeys(FORMAT))
    chosen = {name: getattr(options, name) for name in FORMAT}
    chosen |= {name: columns(getattr(options, field, None)) for name, field in COLUMNS.items()}
    return replace(settings, **{name: value for name, value in chosen.items() if value is not None})


def columns(value: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return one column, or several, as several."""
    return (value,) if isinstance(value, str) else value


def with_fields(data: Data, values: Mapping[str, str]) -> Data:
    """Return the data with the fields that an inspection found, by their full names. Classification
    has several target columns."""
    changed: dict[str, Any] = {name.removeprefix("data."): value for name, value in values.items()}
    if isinstance(data, ClassificationDataConfig) and "target_column" in changed:
        changed["target_column"] = columns(changed["target_column"])
    return replace(data, **changed)


def number_fields(data: Data, recognised: Mapping[str, str]) -> dict[str, str]:
    """Return the fields about numbers that a recipe takes from the fields that an inspection
    recognised: texts as sources, if the recipe reads series with a number each, and the decimal
    mark."""
    if not isinstance(data, ClassificationDataConfig):
        return {}
    names = list[str]()
    if data.source == "series" and recognised.get("data.source") == "text":
        names.append("data.source")
    if data.target == "number" and data.decimal_mark is None:
        names.append("data.decimal_mark")
    return {name: recognised[name] for name in names if name in recognised}


def experiment_on_file(path: Path, inspection: Inspection | None, name: str) -> Experiment:
    """Return the experiment of the recipe that suits a data file. A file that is not inspected has
    captions if it is JSON, otherwise pairs for the default model."""
    if inspection is not None:
        return experiment_of_recipe(inspection.roles.recipe, path, name, inspection.fields())
    if suffix_of(path) == ".json":
        return experiment_of_recipe("captions", path, name, {})
    return Experiment(name=name, data=DataConfig(path=path))


def experiment_of_recipe(
    recipe: str, path: Path | None, name: str, values: Mapping[str, str]
) -> Experiment:
    """Return the experiment of a recipe on a data file, or on data in memory, with these fields of
    its data."""
    experiment = recipes.load(recipes.find(recipe))
    data = with_fields(with_path(experiment.data, path), values)
    return replace(experiment, name=name, about="", data=data)


def with_path(data: Data, path: Path | None) -> Data:
    """Return the data with this file, or none for data in memory, and without generated data or
    other corpora."""
    size = DATA_SECTIONS[data.task]().synthetic_size
    if isinstance(data, DataConfig):
        data = replace(data, mix=None)
    return replace(data, path=path, synthetic=None, synthetic_size=size)


def run_name(path: Path) -> str:
    """Return the name of a run on a data file: its name without suffixes. Empty if nothing is
    left."""
    return path.name.lstrip(".").split(".")[0]
