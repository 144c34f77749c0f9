"""Names of the number formats that training may use."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16"]
