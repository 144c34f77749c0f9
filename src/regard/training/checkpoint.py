"""What a run leaves behind: the weights to use, and what is needed to go on.

    FOLDER/model.safetensors            the best weights by dev score; without dev scores, the last
    FOLDER/state/training.safetensors   the last weights, Adam's moments and, as JSON in the file's
                                        metadata, the counters and the settings

Every file is written whole and then renamed, so that a process that is killed leaves the old file
or the new one. All that belongs to one moment is in one file. Nothing is pickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError
from regard.files import MODEL, make_folder, whole
from regard.training.settings import Batches, TrainingSettings

MAY_CHANGE = {"length", "patience", "validate_every", "log_every", "save_seconds"}
"""Settings that may differ when a run is resumed."""


@dataclass
class Sums:
    """What has been added up since the log's last line."""

    loss: float = 0.0
    count: int = 0
    words: int = 0
    seconds: float = 0.0
    penalties: dict[str, float] = field(default_factory=dict)


@dataclass
class Standing:
    """Where training stands, but for the tensors. Randomness is no part of it: that of an update
    follows from the seed and the update's number."""

    update: int = 0
    epoch: int = 1
    batch: int = 0
    """Batches of this epoch that are done."""
    seconds: float = 0.0
    scores: list[float] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    """Of every validation that `scores` are of."""
    sums: Sums = field(default_factory=Sums)

    @property
    def best(self) -> int:
        """Which validation was the best: of equal scores the one with the lower loss, of equal
        losses the first."""
        losses = [math.inf if loss is None or math.isnan(loss) else loss for loss in self.losses]
        return max(range(len(losses)), key=lambda number: (self.scores[number], -losses[number]))


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run; without a folder none are kept."""

    folder: Path | None
    facts: Mapping[str, str]
    """What has to be the same when the run is resumed, by the names that users know."""

    @property
    def state(self) -> Path | None:
        return self.folder / "state" / "training.safetensors" if self.folder else None

    def save_model(self, model: nn.Module) -> None:
        """Keep these weights as the model."""
        if self.folder:
            save_weights(model, self.folder / MODEL)

    def save(self, standing: Standing, model: nn.Module, adam: torch.optim.Optimizer) -> None:
        """Keep what resuming from here needs."""
        if self.state:
            tensors = {f"weights.{name}": weight for name, weight in _weights(model).items()}
            for name, weight in model.named_parameters():
                for moment, value in adam.state.get(weight, {}).items():
                    tensors[f"{moment}.{name}"] = value
            about = {"standing": asdict(standing), "facts": dict(self.facts)}
            make_folder(self.state.parent)
            _write(self.state, tensors, {"training": json.dumps(about)})

    def check(self, *, resume: bool) -> None:
        """UserError where there is nothing to resume, something in the way of a new run, or where
        the settings or the data are not those of the run. Changes nothing."""
        if resume:
            if self.state is None or not self.state.is_file():
                raise UserError(f"nothing to resume: there is no {self.state or 'folder'}")
            self._compare(_read_about(self.state)["facts"])
        elif self.state and self.state.exists():
            raise UserError(f"{self.folder} holds a run already: resume it or name another")

    def begin(self, model: nn.Module, adam: torch.optim.Optimizer, *, resume: bool) -> Standing:
        """A new run's standing, or the old one's with the model and Adam set back to it.

        UserError where `check` says so, or where the weights are another model's."""
        self.check(resume=resume)
        if resume and self.state:
            tensors = _read(self.state)
            _set_weights(model, _with_prefix("weights.", tensors), self.state)
            _set_moments(model, adam, tensors)
            standing = _read_about(self.state)["standing"]
            return Standing(**{**standing, "sums": Sums(**standing["sums"])})
        if self.folder:
            make_folder(self.folder)
        standing = Standing()
        self.save(standing, model, adam)  # from the first moment there is something to resume
        return standing

    def _compare(self, then: Mapping[str, str]) -> None:
        for name in [*then, *self.facts]:
            was, came = then.get(name, "not set"), self.facts.get(name, "not set")
            if was != came:
                raise UserError(
                    f"cannot resume {self.folder}: {name} was {was} and is {came} now. Put it "
                    f"back, or train in a new folder"
                )


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's weights, tied ones once."""
    _write(path, _weights(model), {})


def load_weights(model: nn.Module, path: Path) -> None:
    """Set a model's weights to those of a file; UserError where they are another model's."""
    _set_weights(model, _read(path), path)


def facts_of(settings: TrainingSettings, batches: Batches) -> dict[str, str]:
    """What a resumed run has to agree with: settings by name, and the data."""
    facts = {}
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name in MAY_CHANGE:
            continue
        if is_dataclass(value):
            inner = {part.name: repr(getattr(value, part.name)) for part in fields(value)}
            facts.update({f"{setting.name}.{name}": text for name, text in inner.items()})
        else:
            facts[setting.name] = repr(value)
    return {**facts, "the fingerprint of the training data": batches.fingerprint()}


def _names(model: nn.Module) -> dict[str, str]:
    """Every name of the state dict with the name that its tensor is stored under: its first."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}


def _weights(model: nn.Module) -> dict[str, Tensor]:
    state = model.state_dict()
    return {name: state[name] for name in _names(model).values()}


def _set_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    found = {n: weights[stored] for n, stored in _names(model).items() if stored in weights}
    unknown = {name: weights[name] for name in weights.keys() - found.keys()}
    try:
        model.load_state_dict({**found, **unknown})
    except RuntimeError as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} holds the weights of another model: {why}") from error


def _set_moments(
    model: nn.Module, adam: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Set Adam back, whose own state dict goes by the places of weights instead of their names."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    (group,) = adam.param_groups
    state: dict[int, dict[str, Tensor]] = {}
    for place, weight in enumerate(group["params"]):
        for moment in ("step", "exp_avg", "exp_avg_sq"):
            value = tensors.get(f"{moment}.{names[id(weight)]}")
            if value is not None:
                state.setdefault(place, {})[moment] = value
    adam.load_state_dict({**adam.state_dict(), "state": state})


def _with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    dense = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with whole(path) as unfinished:
        save_file(dense, unfinished, metadata={"format": "pt", **metadata})


def _read_about(path: Path) -> dict[str, Any]:
    """What a file that `Checkpoints.save` wrote says about itself."""
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})["training"])
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not the state of a training: {error}") from error
    return about


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as weights: {error}") from error
