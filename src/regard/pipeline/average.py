"""Averages of the weights of several runs, as a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from regard import recipes
from regard.config import Experiment
from regard.errors import UserError
from regard.runs.ensemble import warn_of_other_data
from regard.runs.folder import RunFolder
from regard.storage.files import make_folder
from regard.storage.weights import digest_of_weights, mean_weights, write_tensors
from regard.tasks.translation.loaded import TranslationRun

log = logging.getLogger(__name__)

MAY_DIFFER = ("dropout", "vectors")
"""Ends of the names of model options that do not change how weights are used."""


def average(runs: Sequence[Path], path: Path) -> RunFolder:
    """Write a run with the mean weights of several runs. It has the recipe of the first run, and
    the dev and test splits if they are the same in all runs. Warn of runs that were trained on
    other data, or began with other weights.

    UserError for fewer than two runs, for runs of different models or vocabularies, or if the new
    folder is not empty."""
    if len(runs) < 2:
        raise UserError(f"expected two or more runs to average, got {len(runs)}")
    folder, folders = RunFolder(path), [RunFolder(run) for run in runs]
    if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
        raise UserError(f"{path} exists already: name a new folder with -o")
    first, *rest = [TranslationRun.load(run) for run in runs]
    for run_to_add in rest:
        first.check_vocabularies(run_to_add, "be averaged")
        _check_models(first, run_to_add)
    warn_of_other_data(runs)
    _warn_of_other_weights(folders)
    weights = mean_weights([loaded.model for loaded in folders])
    make_folder(path)
    first.tokenizers.save(folder)
    for name in ("dev", "test"):
        texts = {_text(getattr(loaded, name)) for loaded in folders}
        if len(texts) == 1 and (text := texts.pop()) is not None:
            folder.write(getattr(folder, name), text)
    folder.write(folder.config, recipes.dump(_named(first.experiment, runs, path)))
    run = digest_of_weights(weights)
    folder.write_record(run)
    write_tensors(folder.model, weights, {"run": run})
    return folder


def _check_models(first: TranslationRun, run_to_add: TranslationRun) -> None:
    ours, theirs = (
        dict(recipes.flat(asdict(loaded.experiment.model))) for loaded in (first, run_to_add)
    )
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name) and not name.endswith(MAY_DIFFER):
            raise UserError(
                f"{first.path} and {run_to_add.path} cannot be averaged: model.{name} is "
                f"{ours.get(name)} and {theirs.get(name)}. Average runs of the same model"
            )


def _warn_of_other_weights(folders: Sequence[RunFolder]) -> None:
    """Warn of runs that began with other weights than the first one: their mean is no model."""
    first, *rest = folders
    for folder in rest:
        if _beginning(folder) != _beginning(first):
            log.warning(
                "%s began with other weights than %s, so their mean is unlikely to be useful: "
                "average runs that began with the same weights (--init-from)",
                *(folder.path, first.path),
            )


def _beginning(folder: RunFolder) -> object:
    """Return the run whose weights a run began with, or else the seed of its initial weights."""
    training = folder.experiment().training
    return training.seed if training.initial_run is None else training.initial_run.resolve()


def _named(experiment: Experiment, runs: Sequence[Path], path: Path) -> Experiment:
    about = f"Mean weights of {', '.join(map(str, runs))}. {experiment.about}".strip()
    return replace(experiment, name=path.resolve().name, about=about)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf8") if path.exists() else None
