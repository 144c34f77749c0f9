"""Fields of a record and of its sections, by their full names, such as training.epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar, cast

from regard.config.checks import field_types
from regard.config.data import DATA_SECTIONS
from regard.config.experiment import Experiment
from regard.config.models import KINDS, MODELS

Record = TypeVar("Record")
SECTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "data": ("data.task", DATA_SECTIONS),
    "model": ("data.task", MODELS),
    **{
        f"model.{part}": (
            f"model.{part}.kind",
            {
                kind: record
                for parts in KINDS.values()
                for kind, record in parts.get(part, {}).items()
            },
        )
        for part in ("encoder", "decoder", "head")
    },
}
"""Sections of a recipe, each with the field that decides its record, and the records."""


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


def foreign_field(experiment: Experiment, name: str) -> str:
    """Return the task or the kinds that have the field of this full name, and those of the
    experiment, for the end of a message. Empty if the field is of no other task and kind."""
    sections = [section for section in SECTIONS if name.startswith(f"{section}.")]
    if not sections:
        return ""
    section = max(sections, key=len)
    field = name.removeprefix(f"{section}.").split(".")[0]
    place, records = SECTIONS[section]
    part = experiment.model.parts.get(section.removeprefix("model."))
    if section.startswith("model.") and part is None:
        place, records = SECTIONS["model"]
        field = section.removeprefix("model.")
    owners = [owner for owner, record in records.items() if field in field_types(record)]
    now = experiment.data.task if part is None else part.kind
    if not owners or now in owners:
        return ""
    return f"{place} {' and '.join(owners)}, but {place} is {now}: leave it out or change either"
