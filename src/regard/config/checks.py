"""What several records check of their fields."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Any

from regard.errors import UserError


def check_least(section: str, record: object, least: int, *names: str) -> None:
    """UserError unless each of these fields is unset or a number from the least one up."""
    for name in names:
        value = getattr(record, name)
        if value is not None and not least <= value < math.inf:
            raise UserError(f"{section}.{name} is {value}: expected {least} or more")


def check_positive(section: str, record: object, *names: str) -> None:
    """UserError unless each of these fields is unset or more than 0."""
    for name in names:
        value = getattr(record, name)
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{section}.{name} is {value}: expected more than 0")


def check_share(section: str, record: object, *names: str) -> None:
    """UserError unless each of these fields is unset or a share, from 0 to 1."""
    for name in names:
        value = getattr(record, name)
        if value is not None and not 0 <= value <= 1:
            raise UserError(f"{section}.{name} is {value}: expected 0 to 1")


def changed(record: Any, *names: str) -> tuple[str, ...]:
    """Those of a dataclass's fields that are not at their defaults."""
    return tuple(
        each.name
        for each in fields(record)
        if each.name in names and getattr(record, each.name) != _default(each)
    )


def _default(each: Any) -> object:
    return each.default if each.default_factory is MISSING else each.default_factory()
