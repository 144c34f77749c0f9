"""Teachers of a distillation, for models of every task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from torch import nn

from regard.config import ModelConfig, TrainingConfig, longest_sequence
from regard.errors import UserError
from regard.runs.ensemble import all_members
from regard.runs.folder import RunFolder
from regard.runtime.device import device_named
from regard.storage.files import resolved
from regard.storage.record import digest_of_file
from regard.training.objectives.distillation import Teachers


def teachers_of(config: TrainingConfig, load: Callable[[Path], nn.Module]) -> Teachers | None:
    """Load the teachers of a distillation; None for other objectives. `load` returns the model of a
    run folder, or raises a UserError if the model cannot teach this one. UserError for a run that
    is named twice."""
    if config.objective != "distillation":
        return None
    device = device_named(config.device, "training.device")
    runs = all_members(config.teachers)
    for run, number in Counter(map(resolved, runs)).items():
        if number > 1:
            raise UserError(
                f"training.teachers: {run} is named {number} times: expected different runs"
            )
    models = []
    for run in runs:
        try:
            models.append(load(run).to(device))
        except UserError as error:
            raise UserError(f"training.teachers: {error}") from error
    return Teachers(tuple(models), tuple(digest_of_file(RunFolder(run).model) for run in runs))


def describe_change(config: TrainingConfig, was: str) -> str:
    """Return what changed in the teachers of a training. `was` contains their digests when the
    training started."""
    runs = [
        run
        for run in all_members(config.teachers)
        if digest_of_file(RunFolder(run).model) not in was
    ]
    names = ", ".join(map(str, runs or config.teachers))
    verb = "has" if len(runs or config.teachers) == 1 else "have"
    changed = "weights" if runs else "members"
    return (
        f"training.teachers: {names} {verb} other {changed} than when this training started: "
        f"restore {names}"
    )


def check_longest(path: Path, teacher: ModelConfig, max_length: int) -> None:
    """Check that a teacher reads sequences of `max_length` tokens. UserError if it has a smaller
    number of positions."""
    longest = longest_sequence([teacher])
    if longest is not None and longest < max_length:
        raise UserError(
            f"{path} reads at most {longest} tokens, but data.max_length is {max_length}: lower "
            "data.max_length"
        )
