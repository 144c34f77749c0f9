"""Attention in both forms: by its formulas, and by the accelerated classes."""

from __future__ import annotations

import pytest

from tests import forms


@pytest.fixture(autouse=True)
def form(request, monkeypatch) -> str:
    """Build accelerated modules, or, where a test asks for this form, formulas."""
    name: str = getattr(request, "param", "accelerated")
    if name == "accelerated":
        forms.build_accelerated(monkeypatch)
    return name
