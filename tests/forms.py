"""The two forms of a module: its formula, and its accelerated class."""

from __future__ import annotations

from functools import wraps
from importlib import import_module

import pytest

from regard.compiled.accelerate import MODULES

BOTH = pytest.mark.parametrize("form", ["formula", "accelerated"], indirect=True)
"""Run tests in both forms. Others, where a conftest imports `form`, run in the accelerated form."""


@pytest.fixture(autouse=True)
def form(request, monkeypatch) -> str:
    """Build accelerated modules, or, where a test asks for this form, formulas."""
    name: str = getattr(request, "param", "accelerated")
    if name == "accelerated":
        build_accelerated(monkeypatch)
    return name


def twins() -> dict[type, type]:
    """Return the accelerated class of every formula that has one."""
    return {
        formula: twin
        for name in set(MODULES.values())
        for formula, twin in import_module(name).TWINS.items()
    }


def build_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every formula an object of its accelerated class when it is built."""
    for formula, twin in twins().items():
        monkeypatch.setattr(formula, "__init__", _accelerated(formula, twin))


def _accelerated(formula, twin):
    initialise = formula.__init__

    @wraps(initialise)
    def accelerated(self, *arguments, **options):
        initialise(self, *arguments, **options)
        if type(self) is formula:
            self.__class__ = twin

    return accelerated
