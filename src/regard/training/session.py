"""A session of a training: its model and its state, validations and saving."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.errors import UserError
from regard.runtime import processes
from regard.training.batch_parts import Splits
from regard.training.checkpoint import Checkpoints
from regard.training.log import Reporter, Validation
from regard.training.parallel.replicas import (
    copy_from_first,
    copy_weights_from_first,
    replica_of,
    whole_model,
)
from regard.training.parallel.shards import all_finite, is_sharded
from regard.training.recorder import REMEDY, Recorder
from regard.training.schedule import Progress
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState, gain, rank

Validate = Callable[[nn.Module], Validation]
"""Function from the model to its scores on held-out data."""


@dataclass
class Session:
    """The objects that the updates of a training change."""

    model: nn.Module
    replica: nn.Module
    """Module of the losses of this process."""
    adam: torch.optim.AdamW
    settings: TrainingSettings
    shards: bool
    """Whether every process has a part of the model."""
    checkpoints: Checkpoints
    state: TrainingState
    recorder: Recorder
    splits: Splits
    saved: float
    """Time of the last saved state, in seconds of `time.perf_counter`."""

    @classmethod
    def begin(
        cls,
        model: nn.Module,
        settings: TrainingSettings,
        fingerprint: dict[str, str],
        report: Reporter | None,
        folder: Path | None,
        *,
        resume: bool,
    ) -> Session:
        """Begin a training, or continue the one in the folder. The first process alone reports, and
        uses the folder; with sharding, every process writes its part of the state there."""
        replica = replica_of(model, settings.objective, settings.sharding)
        adam = settings.optimiser.build(model)
        shards = is_sharded(model)
        shared = folder if shards else None
        if not processes.is_first():
            folder, report = None, None
        checkpoints = Checkpoints(folder, fingerprint, settings.average, shared)
        state = TrainingState()
        if processes.is_first() or shards:
            state = checkpoints.begin(model, adam, resume=resume)
        state = processes.from_first(state)
        copy_from_first(model, adam)
        recorder = Recorder(folder, report, state)
        splits = Splits(folder, resume=resume)
        saved = time.perf_counter()
        return cls(
            model, replica, adam, settings, shards, checkpoints, state, recorder, splits, saved
        )

    def validate(self, validate: Validate, progress: Progress) -> None:
        """Compute the dev score, and write the weights if it is the best one."""
        self._check()
        with whole_model(self.replica) as whole:
            validation = _validated(validate, whole)
            self.state.higher_is_better = validation.higher_is_better
            self.state.scores.append(validation.score)
            self.state.losses.append(validation.loss)
            best = self.checkpoints.keep(self.state, whole)
        self.recorder.dev_line(progress, validation, best)
        if len(self.state.scores) == 1 or self.checkpoints.is_crowded():
            self.saved = -math.inf  # a save is due: the first one, or one that removes old weights

    def validate_initial(self, validate: Validate, total: int) -> None:
        """Validate the initial weights before the first update, and save the state."""
        self.state.has_initial = True
        self.validate(validate, Progress(0, total, epoch=0, batch=0))
        self.save()

    def is_save_due(self) -> bool:
        """Return whether the state was saved long enough ago. Processes with parts of a model
        agree."""
        is_due = time.perf_counter() - self.saved >= self.settings.save_seconds
        return bool(processes.largest(int(is_due))) if self.shards else is_due

    def save(self) -> None:
        self._check()
        self.checkpoints.save(self.state, self.model, self.adam)
        self.saved = time.perf_counter()

    def end(self, validate: Validate | None, *, is_complete: bool) -> None:
        """Save the last state, and the weights if no validation has. A complete training tries the
        average of the best weights."""
        self._check()
        self.checkpoints.save(self.state, self.model, self.adam, is_last=is_complete)
        if not self.state.scores:
            with whole_model(self.replica) as whole:
                self.checkpoints.save_model(whole)
        if validate and self.settings.average and len(self.state.trained) > 1 and is_complete:
            with whole_model(self.replica) as whole:
                _try_average(validate, whole, self.checkpoints, self.state, self.recorder)

    def _check(self) -> None:
        """Add all losses to the totals. NotFiniteError for a loss that is not finite,
        UserError for a weight."""
        self.recorder.settle()
        _check_weights(self.model, self.state.update)


def _check_weights(model: nn.Module, update: int) -> None:
    """Raise a UserError if a weight is not finite. The loss of the last update may still be finite,
    because it was computed before the weights changed."""
    if not all_finite(model):
        raise UserError(
            f"a weight is not a finite number after update {update}, so training stopped and "
            f"nothing was saved after it. {REMEDY}"
        )


def _validated(validate: Validate, model: nn.Module) -> Validation:
    model.eval()
    with torch.no_grad():
        validation = validate(model)
    model.train()
    if not math.isfinite(validation.score):
        raise ValueError(f"validate gave the score {validation.score}: expected a finite number")
    return validation


def _try_average(
    validate: Validate,
    model: nn.Module,
    checkpoints: Checkpoints,
    state: TrainingState,
    recorder: Recorder,
) -> None:
    """Validate the mean of the weights of the best validations, and save it if it scores higher
    than the best validation. (Vaswani et al. 2017, section 6.1, average the last checkpoints.)
    The weights of the model object do not change."""
    last = {name: weight.clone() for name, weight in model.state_dict().items()}
    validations = checkpoints.average_into(model, state) if processes.is_first() else ()
    copy_weights_from_first(model)
    validation = _validated(validate, model)
    best_single = rank(state.gains[state.best], state.losses[state.best])
    averaged = gain(validation.score, validation.higher_is_better)
    best = rank(averaged, validation.loss) > best_single
    if best:
        checkpoints.save_model(model)
    model.load_state_dict(last)
    recorder.average_line(validation, validations, best)
