"""What some tests need beside the package and the tools of development, and what is said where that
is missing."""

from __future__ import annotations

from typing import Any

import pytest

EXPORT = "needs the extra `export`"


def export(name: str) -> Any:
    """A module of that extra, or of ours that imports it; a skip without."""
    return pytest.importorskip(name, reason=EXPORT)
