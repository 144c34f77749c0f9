"""`regard average`: one run out of several."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from regard.cli.options import parse


@dataclass(frozen=True)
class Options:
    """Average the weights of runs of one model and vocabulary that began with the same weights, as
    by --init-from. (What `training.average` does for the checkpoints of one run.)"""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """The run folders, two or more."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """Folder to write the new run to."""


def run(arguments: list[str]) -> None:
    """Write the mean as a run."""
    options = parse(Options, arguments, "regard average")
    from regard.pipeline.average import average

    folder = average(options.runs, options.output)
    name = shlex.quote(str(folder.path))
    print(f"{folder.path}: the mean of the weights of {len(options.runs)} runs")
    if folder.test.exists():
        print(f"try it: regard evaluate {name}")
    else:
        print(f"they share no test pairs; try it: regard evaluate {name} PAIRS")
