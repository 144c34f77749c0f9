"""Trainings by `regard train` and scores by `regard evaluate`, each in a process of its own, on one
core: for tables of what recipes reach."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WholeRun:
    """What a training came to: its scores by their names, the processor's seconds, and the most
    memory that it held."""

    scores: dict[str, float]
    seconds: float
    megabytes: float


def run_recipe(
    recipe: str, options: Sequence[str], test: Path | None = None, *, run: Path
) -> WholeRun:
    """Train a recipe with these options into a folder and score it, by the pairs that it holds out
    unless others are named. SystemExit where either fails."""
    used = _regard("train", recipe, "--output", str(run), *options)
    _regard("evaluate", str(run), *([str(test)] if test else []))
    (page,) = json.loads((run / "results.json").read_text(encoding="utf8")).values()
    scores = {score["name"]: score["value"] for score in page[-1]["scores"]}
    return WholeRun(scores, used.ru_utime, used.ru_maxrss / 1024)


def sounds(folder: Path, language: str) -> tuple[list[str], Path]:
    """Options that name a language's files for the recipe `g2p`, and its test."""
    train, dev, test = (folder / f"{language}_{part}.tsv" for part in ("train", "dev", "test"))
    return ["--data.path", str(train), "--data.dev-path", str(dev)], test


def _regard(*command: str) -> resource.struct_rusage:
    """Run a command and tell what it used; SystemExit with the last that it said where it
    fails."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "regard.cli.main", *command],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        if status:
            said.seek(0)
            last = said.read().strip().rpartition("\n")[-1]
            raise SystemExit(f"regard {' '.join(command)}: {last}")
    return used
