"""Run `regard train` and `regard evaluate` on one core, each in a process of its own."""

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
    """Scores by name, CPU seconds and peak memory of one training."""

    scores: dict[str, float]
    seconds: float
    megabytes: float


def run_recipe(
    recipe: str, options: Sequence[str], test: Path | None = None, *, run: Path
) -> WholeRun:
    """Train a recipe with these options into a folder, and score it on `test` (by default its test
    split). SystemExit if either command fails."""
    used = run_command("train", recipe, "--output", str(run), *options)
    run_command("evaluate", str(run), *([str(test)] if test else []))
    (entries,) = json.loads((run / "results.json").read_text(encoding="utf8")).values()
    scores = {score["name"]: score["value"] for score in entries[-1]["scores"]}
    return WholeRun(scores, used.ru_utime, used.ru_maxrss / 1024)


def sounds(folder: Path, language: str) -> tuple[list[str], Path]:
    """Return the options with a language's files for the recipe `g2p`, and its test file."""
    train, dev, test = (folder / f"{language}_{part}.tsv" for part in ("train", "dev", "test"))
    return ["--data.path", str(train), "--data.dev-path", str(dev)], test


def run_command(*command: str) -> resource.struct_rusage:
    """Run a command and return its use of resources; SystemExit with its last line if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "regard.cli.main", *command],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        if status:
            output.seek(0)
            last = output.read().strip().rpartition("\n")[-1]
            raise SystemExit(f"regard {' '.join(command)}: {last}")
    return used
