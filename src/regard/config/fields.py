"""Fields of a record and of its sections, by their full names, such as training.epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar, cast

from regard.config.checks import field_types

Record = TypeVar("Record")


def field_hints(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the full name and the annotation of each field. A section is a field that is a
    dataclass: its fields are yielded in its place."""
    for name, hint in field_types(record.__class__).items():
        value = getattr(record, name)
        if is_dataclass(value):
            yield from field_hints(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", hint


def with_values(record: Record, values: Mapping[str, Any]) -> Record:
    """Return the record with these values of its fields, by full name. UserError for values that a
    record rejects."""
    changed: dict[str, Any] = {name: value for name, value in values.items() if "." not in name}
    sections: dict[str, dict[str, Any]] = {}
    for name in values.keys() - changed.keys():
        section, _, field = name.partition(".")
        sections.setdefault(section, {})[field] = values[name]
    for name in sorted(sections):
        changed[name] = with_values(getattr(record, name), sections[name])
    updated: Record = replace(cast(Any, record), **changed)
    return updated
