"""Requirements of some tests besides the package and the development tools, with the reason for
skipping without them."""

from __future__ import annotations

from typing import Any

import pytest

EXPORT = "needs the extra `export`"


def export(name: str) -> Any:
    """A module of that extra, or of ours that imports it; a skip without."""
    return pytest.importorskip(name, reason=EXPORT)
