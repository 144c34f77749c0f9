"""Whether a folder holds the run that is to go on, of the same settings and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from regard import recipes
from regard.config import Experiment
from regard.data.text import Pair
from regard.errors import UserError
from regard.pipeline.folder import RunFolder, as_lines

MAY_CHANGE = (
    "name",
    "about",
    "model.external_shape",
    "search.",
    "training.epochs",
    "training.updates",
    "training.patience",
    "training.validate_every",
    "training.log_",
    "training.device",
)
"""How fields begin that may change when a run is resumed. Where the pairs lie may change too: it is
their content that is compared."""


def check_folder(folder: RunFolder, experiment: Experiment, *, resume: bool) -> None:
    """A folder with neither weights nor state holds no run: one was never begun in it."""
    if not (folder.model.exists() or folder.state.exists()):
        if resume:
            raise UserError(
                f"{folder.path} holds no run to resume: leave out --resume to begin one"
            )
        in_the_way = [path.name for path in folder.files if path.exists()]
        if in_the_way:
            raise UserError(
                f"{folder.path} holds no run, but {', '.join(in_the_way)}, which training would "
                "write over: move that away, or name another folder with --run"
            )
        return
    if not resume:
        raise UserError(
            f"{folder.path} holds a run already: go on with it by --resume, or name another "
            "folder with --run"
        )
    now = dict(recipes.flat(asdict(experiment)))
    for name, was in recipes.flat(asdict(folder.experiment())):
        if now.get(name) != was and not (name.startswith(MAY_CHANGE) or name.endswith("path")):
            raise UserError(
                f"cannot resume {folder.path}: {name} was {was} and is {now.get(name)} now. Put it "
                "back, or train in a new folder"
            )


def check_dev(folder: RunFolder, dev: Sequence[Pair]) -> None:
    """Scores on other pairs say nothing about which weights are the best."""
    known = folder.dev.read_bytes() if folder.dev.exists() else b""
    if known != as_lines(dev).encode():
        raise UserError(
            f"cannot resume {folder.path}: the pairs for the dev score are not those of its "
            f"{folder.dev.name}. Put them back, or train in a new folder"
        )
