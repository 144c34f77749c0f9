"""Checks whether a run can be resumed with these settings and data."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from regard import recipes
from regard.config import Experiment
from regard.config.corpora import have_equal_weights
from regard.data.examples import Pair
from regard.errors import UserError
from regard.runs.ensemble import is_ensemble
from regard.runs.folder import RunFolder, as_lines, may_change
from regard.storage.files import locked_or_refused, make_folder
from regard.storage.record import digest_of_file

COMMAND = "regard train ..."
"""Command of a training in a message, in place of the user's own command."""


def check_folder(folder: RunFolder, experiment: Experiment, *, resume: bool) -> bool:
    """Return whether training continues from a state in the folder.

    A run that was killed before its first state was saved has a configuration only; it starts from
    the beginning. UserError if the folder has a run that is not to be resumed, a run with other
    settings, or nothing to resume, and if it is the folder of an ensemble."""
    if is_ensemble(folder.path):
        raise UserError(
            f"{folder.path} is the folder of an ensemble: name another folder with -o, or one of "
            "its runs"
        )
    if folder.model.exists() or folder.training_state.exists():
        if not resume:
            raise UserError(
                f"{folder.path} holds a run already: continue it with --resume, or name another "
                "folder with -o"
            )
        _compare(folder, experiment)
        folder.check_files()
        return True
    if resume:
        if not folder.config.exists():
            raise UserError(
                f"{folder.path} holds no run to resume: leave out --resume to start one"
            )
        _compare(folder, experiment)
        return False
    in_the_way = [path.name for path in folder.files if path.exists()]
    if in_the_way:
        raise UserError(
            f"{folder.path} has no weights, but has {', '.join(in_the_way)}, which training would "
            "overwrite: use --resume if this run stopped before it saved anything; otherwise move "
            "these files, or name another folder with -o"
        )
    return False


def check_unused(folder: RunFolder) -> None:
    """Raise a UserError if another process is training in this folder."""
    if folder.state.is_dir():
        with training_alone(folder):
            pass


@contextmanager
def training_alone(folder: RunFolder) -> Iterator[None]:
    """Keep other processes from training in this folder until the block ends; UserError if one
    does so already."""
    make_folder(folder.path)
    make_folder(folder.state)
    with locked_or_refused(
        folder.state,
        f"{folder.path} is being trained by another process: wait for its end, or name another "
        "folder with -o",
    ):
        yield


def _compare(folder: RunFolder, experiment: Experiment) -> None:
    now = dict(recipes.flat(asdict(experiment)))
    for name, was in recipes.flat(asdict(folder.experiment())):
        if may_change(name) or now.get(name) == was or _has_moved(name, was, now.get(name)):
            continue
        raise UserError(
            f"cannot resume {folder.path}: {name} was {was} and is {now.get(name)} now. Put it "
            f"back, or {alternative(folder)}"
        )


def _has_moved(name: str, was: object, now: object) -> bool:
    """Return whether two values of a field may differ in paths only. The content of the files of
    `data.mix` and of `training.teachers` is compared later, with the training state."""
    if name == "data.mix":
        return have_equal_weights(was, now)
    if name == "training.teachers":
        return bool(was) and bool(now)
    if not isinstance(was, Path) or not isinstance(now, Path):
        return False
    return was.is_file() and now.is_file() and digest_of_file(was) == digest_of_file(now)


def check_dev(folder: RunFolder, dev: Sequence[Pair]) -> None:
    """Raise a UserError if the dev pairs differ from those of the run: scores on other pairs cannot
    be compared."""
    try:
        known = folder.dev.read_bytes() if folder.dev.exists() else b""
    except OSError as error:
        raise UserError(f"cannot read {folder.dev}: {error.strerror or error}") from error
    if known != as_lines(dev).encode():
        raise UserError(
            f"cannot resume {folder.path}: the pairs for the dev score are not those of its "
            f"{folder.dev.name}. Restore them, or {alternative(folder)}"
        )


def alternative(folder: RunFolder) -> str:
    """Return the end of a message: how to train further with other settings or data. Models of all
    tasks but classification can begin with the weights of a run."""
    if folder.experiment().data.task == "classify" or not folder.model.exists():
        return "train in a new folder with -o"
    return (
        "train a new run from its weights: "
        f"{COMMAND} --init-from {shlex.quote(str(folder.path))} -o NEW"
    )
