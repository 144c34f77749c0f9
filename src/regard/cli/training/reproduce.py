"""`regard reproduce`: train a run again, and compare the weights."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.output import say, warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.cli.training.train import training_views
from regard.config.unused import unused_fields
from regard.errors import UserError
from regard.runtime import torchrun

if TYPE_CHECKING:
    from regard.pipeline.reproduce import Recorded, Reproduction

HELP_EXAMPLES = (
    ("regard reproduce runs/letters", "train again, and say whether the weights are equal"),
    ("regard reproduce runs/letters -o again", "keep the repetition"),
)


@dataclass(frozen=True)
class Options:
    """Train a run again with its settings, data and threads, and compare the weights and the log.
    The exit status is 0 if all weights are equal, bit by bit, and 1 otherwise."""

    run: Positional[Path]
    """Run folder."""
    output: Path | None = None
    """Folder of the repetition (default: a temporary folder, which is removed)."""


def run(arguments: list[str]) -> int:
    """Repeat a training and print the comparison; return 1 if a weight differs."""
    options = parse(Options, arguments, "regard reproduce")
    from regard.pipeline.reproduce import Recorded

    recorded = Recorded.read(options.run)
    if torchrun.is_used() and options.output is not None:
        _train(recorded, options.output)
        return 0
    for difference in recorded.differences():
        warn(f"not as in the training: {difference}")
    if options.output is not None:
        return _report(recorded, _repeat(recorded, options.output))
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        return _report(recorded, _repeat(recorded, Path(folder) / "run"))


def _repeat(recorded: Recorded, path: Path) -> Reproduction:
    """Train again, in as many processes as the run was trained in."""
    number = recorded.environment.processes
    if number == 1:
        _train(recorded, path)
        return recorded.compare(path)
    from regard.pipeline.launch import launch

    os.environ["OMP_NUM_THREADS"] = str(recorded.environment.threads)
    status = launch(["reproduce", str(recorded.folder.path), "--output", str(path)], number)
    if status:
        raise UserError(f"the repetition ended with status {status}: see its messages above")
    return recorded.compare(path)


def _train(recorded: Recorded, path: Path) -> None:
    """Train again in this process, of which the first one prints."""
    if torchrun.rank():
        recorded.repeat(path)
        return
    unused = {field.name for field in unused_fields(recorded.experiment)}
    with training_views(unused) as views:
        recorded.repeat(path, views.start_training, views.preparation)


def _report(recorded: Recorded, result: Reproduction) -> int:
    if result.is_equal:
        say(f"equal: all {result.num_tensors} tensors of {recorded.folder.path}, bit by bit")
    else:
        name, distance = result.largest or ("", 0.0)
        differing = result.num_tensors - result.num_equal
        say(
            f"not equal: {differing} of {result.num_tensors} tensors of {recorded.folder.path} "
            f"differ, {name} most, by up to {distance:.2g}"
        )
    if result.first_difference is not None:
        say(f"the logs differ from update {result.first_difference:,} on")
    return 0 if result.is_equal else 1
