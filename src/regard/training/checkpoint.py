"""Checkpoints of a run: the weights of the model, and the state from which training resumes.

    FOLDER/model.safetensors            the best weights by dev score; without dev scores, the last
    FOLDER/state/training.safetensors   the last weights, Adam's moments and, as JSON in the file's
                                        metadata, the counters and the settings
    FOLDER/state/previous.safetensors   the state before it, which takes over if it is damaged
    FOLDER/state/parts-NAME/            the weights and moments of a sharded training, one file for
                                        each process (see `parts`)
    FOLDER/state/validation-7.safetensors   the weights of one of the best validations, if weights
                                            are averaged at the end

Every file is written under another name and then renamed, so a killed process leaves the old file
or the new file. Values of one moment are in one file. Nothing is pickled.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import UserError
from regard.numerics import product_library
from regard.runtime import processes
from regard.storage.files import (
    LOG,
    MODEL,
    PREVIOUS,
    STATE,
    keep_as,
    make_folder,
    remove_unfinished,
    whole,
)
from regard.storage.record import run_of
from regard.storage.weights import (
    mean_weights,
    read_metadata,
    read_tensors,
    read_weights,
    save_weights,
    set_weights,
    write_tensors,
)
from regard.training.log import digest_up_to
from regard.training.parallel.shard_files import (
    Parts,
    check_parts,
    parts_of,
    remove_parts,
    write_parts,
)
from regard.training.parallel.shards import is_shard, is_sharded
from regard.training.settings import Batches, TrainingSettings
from regard.training.state import Totals, TrainingState
from regard.training.state_tensors import restore, restore_shards, tensors_of

log = logging.getLogger(__name__)

MAY_CHANGE = {
    "length",
    "patience",
    "hours",
    "validate_every",
    "validate_first",
    "log_every",
    "save_seconds",
    "sharding",
}
"""Settings that may differ when a run is resumed."""


class ChangedSettingError(UserError):
    """A setting, or the training data, is not that of the run to resume."""

    def __init__(self, message: str, name: str, was: str) -> None:
        """`name` is that of the fingerprint, and `was` its value when the run started."""
        super().__init__(message)
        self.name = name
        self.was = was


@dataclass(frozen=True)
class _Needed:
    """Files that a training state needs."""

    validations: set[Path]
    """Weights of the validations to average."""
    parts: Parts | None


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of one run; without a folder nothing is saved. Of several processes, the first
    alone has the folder."""

    folder: Path | None
    fingerprint: Mapping[str, str]
    """Settings, by the names in messages, and the digest of the data. They must not change when the
    run is resumed."""
    average: int | None = None
    """Number of best validations whose weights are saved and averaged at the end."""
    shared: Path | None = None
    """Folder of the run, in all processes that have shards of one model."""

    @property
    def state_path(self) -> Path | None:
        return self.folder / STATE if self.folder else None

    @cached_property
    def run(self) -> str:
        """Identity of the run, from its record."""
        return run_of(self.folder)

    def save_model(self, model: nn.Module) -> None:
        """Save these weights as the model."""
        if self.folder:
            save_weights(model, self.folder / MODEL, self.run)

    def keep(self, state: TrainingState, model: nn.Module) -> bool:
        """Save the weights of the last validation: as the model if they are the best so far, and
        for the average if they are among the best. Return whether they are the best."""
        last = len(state.scores) - 1
        if self.folder and last in self._to_keep(state):
            make_folder(self._validated(last, state).parent)
            save_weights(model, self._validated(last, state), self.run)
        if state.best == last:
            self.save_model(model)
        return state.best == last

    def is_crowded(self) -> bool:
        """Return whether the number of saved validations is so large that the state has to be
        saved. Weights that are no longer among the best are removed only then, because a killed run
        resumes from its last state and may need them."""
        return self.average is not None and len(self._validations()) > 3 * self.average

    def average_into(self, model: nn.Module, state: TrainingState) -> tuple[int, ...]:
        """Set the model to the mean of the weights of the best validations. Return their numbers,
        counted from 1."""
        numbers = sorted(self._to_average(state))
        files = [self._validated(number, state) for number in numbers]
        set_weights(model, mean_weights(files), files[0])
        return tuple(_number_in_log(number, state) for number in numbers)

    def _to_average(self, state: TrainingState) -> list[int]:
        return state.trained[: self.average or 0]

    def _to_keep(self, state: TrainingState) -> set[int]:
        """Return the validations whose weights are saved for the average. The best one is among
        them: an average that became the model is taken back if the run is resumed."""
        best = [state.best] if self.average and state.scores else []
        return {*self._to_average(state), *best}

    def _needed(self, state: TrainingState) -> set[Path]:
        return {self._validated(number, state) for number in self._to_keep(state)}

    def _validated(self, number: int, state: TrainingState) -> Path:
        """Return the file of the weights of a validation. File names count from 1, after that of
        the initial weights, if there is one, from 0."""
        if self.folder is None:
            raise ValueError("weights can be saved in a folder only")
        name = f"validation-{_number_in_log(number, state)}.safetensors"
        return self.folder / "state" / name

    def _validations(self) -> list[Path]:
        return list((self.folder / "state").glob("validation-*.safetensors")) if self.folder else []

    def save(
        self,
        state: TrainingState,
        model: nn.Module,
        adam: torch.optim.Optimizer,
        *,
        is_last: bool = False,
    ) -> None:
        """Save the training state, keep the state before it, and remove weights of validations that
        neither of them needs. The last save of a training keeps no state before it. All processes
        that have shards of the model call this method."""
        tensors, parts = tensors_of(model, adam), None
        if self.shared and is_sharded(model):
            shards = {name: tensor for name, tensor in tensors.items() if is_shard(tensor)}
            parts = write_parts((self.shared / STATE).parent, shards)
            tensors = {name: tensors[name] for name in tensors.keys() - shards.keys()}
        if self.state_path:
            about = {
                "state": asdict(state),
                "fingerprint": dict(self.fingerprint),
                "run": self.run,
                "log": digest_up_to(self.state_path.parent.with_name(LOG), state.logged),
                **({"parts": asdict(parts)} if parts else {}),
            }
            make_folder(self.state_path.parent)
            needed = self._needed(state)
            needed_parts = [parts] if parts else []
            if self.state_path.exists() and not is_last:
                keep_as(self.state_path, self._previous)
                before = self._before()
                needed |= before.validations
                needed_parts += [before.parts] if before.parts else []
            write_tensors(self.state_path, tensors, {"training": json.dumps(about)})
            if is_last:
                self._previous.unlink(missing_ok=True)
            for path in set(self._validations()) - needed:
                path.unlink(missing_ok=True)
            remove_parts(self.state_path.parent, needed_parts)

    @property
    def _previous(self) -> Path:
        """File of the state before the last one."""
        return (self.folder or Path()) / PREVIOUS

    def _before(self) -> _Needed:
        """Return the files that the state before the last one needs; none if it is damaged."""
        try:
            about = _read_about(self._previous)
            before, parts = _state(about, self._previous), parts_of(about.get("parts"))
        except (UserError, ValueError, LookupError, TypeError):
            return _Needed(set(), None)
        return _Needed(self._needed(before), parts)

    def _intact(self) -> tuple[Path, dict[str, Any]]:
        """Return the training state with its metadata, or the state before it if the last one is
        damaged or missing. UserError if no state is intact."""
        last = (self.folder or Path()) / STATE
        if not last.is_file() and (last.exists() or not self._previous.is_file()):
            raise UserError(f"nothing to resume: there is no {last}")
        try:
            return last, _check_intact(last)
        except UserError:
            if self._previous.is_file():
                with suppress(UserError):
                    return self._previous, _check_intact(self._previous)
            raise

    def saved_update(self) -> int | None:
        """Return the number of updates of the state to resume; None if no state is intact."""
        try:
            path, about = self._intact()
            return _state(about, path).update
        except UserError:
            return None

    def check(self, *, resume: bool) -> Path | None:
        """Return the file of the state to resume; None for a new run. Nothing is written.

        UserError if there is nothing to resume, if a new run would overwrite another, if weights to
        average have no folder, or if the settings or the data differ from those of the run."""
        if self.average and self.folder is None:
            raise UserError("average saves weights in a folder: name a folder, or unset average")
        if resume:
            if self.folder is None:
                raise UserError("nothing to resume: there is no folder")
            path, about = self._intact()
            self._check_files(self.folder, path, about)
            return path
        if self.state_path and self.state_path.exists():
            raise UserError(f"{self.folder} holds a run already: resume it or name another")
        return None

    def begin(
        self, model: nn.Module, adam: torch.optim.Optimizer, *, resume: bool
    ) -> TrainingState:
        """Return the state of a new run, or restore a saved state with the weights and Adam. All
        processes that have shards of the model call this method.

        UserError as in `check`, or if the weights are those of another model."""
        if self.folder or self.shared is None:
            chosen = self.check(resume=resume)
            if chosen == self._previous and self.state_path:
                log.warning(
                    "%s is damaged or missing; the training continues from the state before it",
                    self.state_path,
                )
                chosen.replace(self.state_path)
        folder = self.shared or self.folder
        if resume and folder:
            if self.shared:
                processes.from_first(None)  # the others read the state that took over
            path = folder / STATE
            for place in (self.folder, path.parent) if self.folder else ():
                remove_unfinished(place)
            about = _read_about(path)
            if is_sharded(model):
                restore_shards(model, adam, path, parts_of(about.get("parts")))
            else:
                restore(model, adam, path, parts_of(about.get("parts")))
            state = _state(about, path)
            self._take_back_average(state)
            return state
        if self.folder:
            make_folder(self.folder)
            remove_unfinished(self.folder)  # of a run that was killed before its first state
        state = TrainingState(products=product_library.current())
        self.save(state, model, adam)  # so that a run can be resumed from its first update on
        return state

    def _take_back_average(self, state: TrainingState) -> None:
        """Replace averaged weights of a run that is resumed by the weights of its best validation,
        as in a run that was not interrupted. UserError if these are missing."""
        if self.folder is None or not self.average or not state.scores:
            return
        best = self._validated(state.best, state)
        if not best.is_file():
            raise UserError(
                f"cannot resume {self.folder}: {best}, a checkpoint to average, is missing. Train "
                "in a new folder"
            )
        with whole(self.folder / MODEL) as unfinished:
            unfinished.write_bytes(best.read_bytes())

    def _check_files(self, folder: Path, path: Path, about: Mapping[str, Any]) -> None:
        """Raise a UserError if the best weights or the log are damaged, or if they or the state
        with this metadata belong to another run."""
        self._compare(about["fingerprint"])
        state = _state(about, path)
        if self.run and about.get("run") != self.run:
            raise UserError(f"cannot resume {folder}: {path} is the state of another run")
        if state.scores:
            read_weights(folder / MODEL)
        digest = about.get("log")
        log = folder / LOG
        if digest is not None and log.exists() and digest != digest_up_to(log, state.logged):
            raise UserError(
                f"cannot resume {folder}: {log} is not the log of this run. Restore the log, or "
                "remove it to start a new one"
            )

    def _compare(self, saved: Mapping[str, str]) -> None:
        for name in [*saved, *self.fingerprint]:
            was, now = saved.get(name, "not set"), self.fingerprint.get(name, "not set")
            if was != now:
                raise ChangedSettingError(
                    f"cannot resume {self.folder}: {name} was {was} and is {now} now",
                    name,
                    was,
                )


def _number_in_log(number: int, state: TrainingState) -> int:
    """Return the number of a validation in names of files and in the log: 0 for that of the initial
    weights, and from 1 for the others."""
    return number if state.has_initial else number + 1


def fingerprint_of(settings: TrainingSettings, batches: Batches) -> dict[str, str]:
    """Return the settings by name, and the digest of the data, which must not change when the run
    is resumed."""
    fingerprint = {}
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name in MAY_CHANGE:
            continue
        if is_dataclass(value):
            inner = {part.name: repr(getattr(value, part.name)) for part in fields(value)}
            fingerprint.update({f"{setting.name}.{name}": text for name, text in inner.items()})
        else:
            fingerprint[setting.name] = repr(value)
    return {**fingerprint, "the fingerprint of the training data": batches.fingerprint()}


def _check_intact(path: Path) -> dict[str, Any]:
    """Return the metadata of a training state. UserError if the state or one of its parts is
    damaged or missing."""
    about = _read_about(path)
    read_tensors(path)
    if (parts := parts_of(about.get("parts"))) is not None:
        check_parts(path.parent, parts)
    return about


def _read_about(path: Path) -> dict[str, Any]:
    """Return the metadata of a file of `Checkpoints.save`. UserError for any other file."""
    try:
        about = json.loads(read_metadata(path)["training"])
    except (KeyError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a training state: {error}") from error
    if not isinstance(about, dict) or not isinstance(about.get("fingerprint"), dict):
        raise UserError(f"{path} is not a training state: it has no settings")
    try:
        parts_of(about.get("parts"))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a training state: {error}") from error
    return about


def _state(about: Mapping[str, Any], path: Path) -> TrainingState:
    try:
        saved = about["state"]
        state = TrainingState(**{**saved, "totals": Totals(**saved["totals"])})
        product_library.checked(state.products)
        return state
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a training state: {error}") from error
