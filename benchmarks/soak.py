"""Measure resident memory over a long training and a long translation in one process.

    python benchmarks/soak.py            (20,000 updates and 1,000,000 lines: 6 minutes of one core)

A small model learns to copy letters; then it translates random lines, in calls of 1,024 lines. The
table has the resident memory and the CPU time after each tenth of the work. This script needs
Linux.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard import recipes
from regard.pipeline.plan import Plan
from regard.pipeline.train import train
from regard.tasks.translation.model import TranslationModel
from regard.training.log import SilentReporter, TrainLine
from regard.training.schedule import Progress

PARTS = 10
LINES_AT_A_TIME = 1024
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Usage:
    """Resources of this process after some work."""

    done: int
    megabytes: float
    cpu_seconds: float

    @classmethod
    def after(cls, done: int) -> Usage:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(done, pages * resource.getpagesize() / 2**20, used.ru_utime + used.ru_stime)


class Observer(SilentReporter):
    """Reporter that measures at each line of the log."""

    def __init__(self) -> None:
        self.usages: list[Usage] = []

    def on_train(self, line: TrainLine, progress: Progress) -> None:
        del progress
        self.usages.append(Usage.after(line.update))


def train_long(folder: Path, updates: int) -> list[Usage]:
    """Train the recipe `copy` for this number of updates, with a validation in each part."""
    experiment, observer = recipes.load(recipes.find("copy")), Observer()
    part = max(1, updates // PARTS)
    training = replace(experiment.training, updates=updates, log_every=part, validate_every=part)

    def begin(_: Plan) -> Observer:
        observer.usages.append(Usage.after(0))
        return observer

    train(replace(experiment, training=training), folder, begin=begin)
    return observer.usages


def random_lines(number: int) -> Iterator[list[str]]:
    """Yield lists of random lines of 1 to 12 letters."""
    drawing = random.Random(1)
    for first in range(0, number, LINES_AT_A_TIME):
        size = min(LINES_AT_A_TIME, number - first)
        yield [" ".join(drawing.choices(LETTERS, k=drawing.randint(1, 12))) for _ in range(size)]


def translate_long(folder: Path, number: int) -> list[Usage]:
    """Translate this number of lines."""
    model = TranslationModel.load(folder, device="cpu")
    usages, done = [Usage.after(0)], 0
    for lines in random_lines(number):
        outputs = model.translate(lines, attention=False)
        if len(outputs) != len(lines):
            raise SystemExit(f"{len(lines)} lines have {len(outputs)} translations")
        done += len(lines)
        if done * PARTS // number > usages[-1].done * PARTS // number:
            usages.append(Usage.after(done))
    return usages


def table(unit: str, usages: Sequence[Usage]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {unit} | resident memory | CPU time |", "|---|---|---|"]
    lines += [
        f"| {usage.done:,} | {usage.megabytes:,.1f} MB | {usage.cpu_seconds:,.0f} s |"
        for usage in usages
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and translate, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        print(table("updates", train_long(run, options.updates)), flush=True)
        print(table("lines", translate_long(run, options.lines)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
