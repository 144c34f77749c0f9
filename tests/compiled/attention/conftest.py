"""Modules of attention in their accelerated form."""

from tests.attention.conftest import form  # noqa: F401 (a fixture of every test)
