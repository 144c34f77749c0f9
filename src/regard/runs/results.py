"""Saved evaluations of a run: its results.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.runs.folder import RunFolder


def saved_evaluations(folder: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """Return the content of a run's results.json: the evaluations on each file of pairs. UserError
    if the file holds anything else."""
    if not folder.results.exists():
        return {}
    try:
        results = json.loads(folder.results.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read {folder.results}: {error}. Move the file to another folder"
        ) from error
    if not (
        isinstance(results, dict) and all(isinstance(entries, list) for entries in results.values())
    ):
        raise UserError(
            f"{folder.results} was not written by `regard evaluate`: move it to another folder"
        )
    return results


def key_of(folder: RunFolder, data: Path) -> str:
    """Return the key of a file of pairs in results.json: the name of a file in the run folder, so
    that the folder can be moved; the path of another file."""
    path, home = data.resolve(), folder.path.resolve()
    return str(path.relative_to(home) if path.is_relative_to(home) else path)
