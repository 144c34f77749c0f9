"""The mean of the weights of several runs, as a run of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from regard import recipes
from regard.config import Experiment
from regard.errors import UserError
from regard.files import make_folder
from regard.models.weights import digest_of_weights, mean_weights, write_tensors
from regard.runs.folder import RunFolder
from regard.tasks.translation.loaded import Loaded

MAY_DIFFER = ("dropout", "vectors")
"""How fields of a model end that say nothing of how its weights are used."""


def average(runs: Sequence[Path], path: Path) -> RunFolder:
    """Write a new run whose weights are the mean of those of the runs, with the recipe of the
    first, and with the held-out pairs that all of them held out.

    UserError where there are fewer than two, where they are not of one model and vocabulary, or
    where the new folder holds something already."""
    if len(runs) < 2:
        raise UserError(f"{len(runs)} run has no mean: name at least two")
    folder, folders = RunFolder(path), [RunFolder(each) for each in runs]
    if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
        raise UserError(f"{path} is there already: name a new folder with -o")
    first, *rest = [Loaded.of(each) for each in runs]
    for other in rest:
        first.check_vocabularies(other, "be averaged")
        _check_models(first, other)
    weights = mean_weights([each.model for each in folders])
    make_folder(path)
    first.tokenizers.save(folder)
    for name in ("dev", "test"):
        texts = {_text(getattr(each, name)) for each in folders}
        if len(texts) == 1 and (text := texts.pop()) is not None:
            folder.write(getattr(folder, name), text)
    folder.write(folder.config, recipes.dump(_named(first.experiment, runs, path)))
    run = digest_of_weights(weights)
    folder.write_record(run)
    write_tensors(folder.model, weights, {"run": run})
    return folder


def _check_models(first: Loaded, other: Loaded) -> None:
    ours, theirs = (dict(recipes.flat(asdict(each.experiment.model))) for each in (first, other))
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name) and not name.endswith(MAY_DIFFER):
            raise UserError(
                f"{first.path} and {other.path} cannot be averaged: model.{name} is "
                f"{ours.get(name)} and {theirs.get(name)}. Average runs of one model"
            )


def _named(experiment: Experiment, runs: Sequence[Path], path: Path) -> Experiment:
    about = f"The mean of the weights of {', '.join(map(str, runs))}. {experiment.about}".strip()
    return replace(experiment, name=path.resolve().name, about=about)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf8") if path.exists() else None
