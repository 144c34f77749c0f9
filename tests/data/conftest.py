"""Real data, where there is some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def real_data() -> Path:
    """The folder that REGARD_DATA points to."""
    folder = os.environ.get("REGARD_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: REGARD_DATA points to no folder")
    return Path(folder)
