"""Settings by which the files of a configuration are read, and fields that a file decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.config import ClassificationDataConfig, Data
from regard.data.files.tables import TableSettings


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
    )


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


def source_field(data: Data, recognised: Mapping[str, str]) -> dict[str, str]:
    """Return `data.source` as a field if the recipe reads series with a number each, and the fields
    that an inspection recognised name texts as sources; otherwise no field."""
    is_series = isinstance(data, ClassificationDataConfig) and data.source == "series"
    is_text = is_series and recognised.get("data.source") == "text"
    return {"data.source": "text"} if is_text else {}
