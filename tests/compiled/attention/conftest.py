"""Modules in both forms: by formulas, and by accelerated classes."""

from tests.forms import form  # noqa: F401 (a fixture of every test)
