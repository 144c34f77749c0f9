"""`regard average`: average the weights of runs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.errors import UsageError

MIN_RUNS = 2


@dataclass(frozen=True)
class Options:
    """Average the weights of runs with the same model and vocabulary. The runs should have the same
    initial weights, as with --init-from. `training.average` averages the checkpoints of one run."""

    runs: Positional[tuple[Path, ...]]
    """Two or more run folders."""
    output: Path | None = None
    """Folder to write the new run to (default: required)."""


def run(arguments: list[str]) -> None:
    """Write a run with the mean weights."""
    options = parse(Options, arguments, "regard average")
    problems = []
    if len(options.runs) < MIN_RUNS:
        problems.append(f"expected two or more runs to average, got {len(options.runs)}")
    if options.output is None:
        problems.append("name the folder of the new run with -o FOLDER")
    if options.output is None or problems:
        raise UsageError("; ".join(problems))
    from regard.pipeline.average import average

    folder = average(options.runs, options.output)
    name = shlex.quote(str(folder.path))
    print(f"{folder.path}: mean weights of {len(options.runs)} runs")
    if folder.test.exists():
        print(f"try it: regard evaluate {name}")
    else:
        print(f"the runs have no common test split; try it: regard evaluate {name} PAIRS")
