"""Cells of files whose columns have types, as texts, and errors that their readers share."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

from regard.data.recognition.decimals import NumberText
from regard.data.several_labels import ListText
from regard.errors import UserError, install_command


def cell_text(value: Any) -> str:
    """Return a cell as text: numbers without a fraction as whole numbers, dates in ISO format,
    bytes as UTF-8, and missing values, or bytes that are not UTF-8, as empty texts."""
    match value:
        case None:
            return ""
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool():
            return str(value).lower()
        case float() if math.isnan(value):
            return ""
        case float() if value.is_integer() and abs(value) < 1e15:
            return NumberText(int(value))
        case int() | float() | Decimal():
            return NumberText(value)
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case bytes():
            return _decoded(value)
        case list():
            is_nested = any(isinstance(item, list | dict) for item in value)
            return ListText.of([*map(cell_text, value)], is_nested=is_nested)
        case _:
            return str(value)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def missing_package(path: Path, package: str) -> UserError:
    """Return the error for a file whose library is not installed."""
    return UserError(f"{path} needs {package}: {install_command(package)}")


def damaged_file(path: Path, error: BaseException) -> UserError:
    """Return the error for a file that its library cannot read."""
    problem = " ".join(str(error).split())[:120]
    return UserError(f"cannot read {path}: {problem or type(error).__name__}")
