"""The training loop. `train` comes first; the functions that it calls follow below. session.py has
validations and the training state.

update       one change of the weights: `accumulate` batches forward and backward, clipping, Adam
epoch        one pass over the training pairs
validation   a function of the caller computes the dev score, usually by decoding
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from regard.errors import UserError
from regard.names import Ending
from regard.numerics import product_library
from regard.runtime import processes
from regard.training.checkpoint import fingerprint_of
from regard.training.log import EndLine, Reporter
from regard.training.parallel.replicas import (
    add_up,
    share_of,
    sums_of_gradients,
)
from regard.training.prefetch import prefetched
from regard.training.recorder import Losses
from regard.training.schedule import Plateau, Progress
from regard.training.session import Session, Validate
from regard.training.settings import Batches, Period, TrainingSettings
from regard.training.state import TrainingState

ENDINGS: tuple[Ending, ...] = get_args(Ending)
AHEAD = 2
"""Number of updates whose batches are prefetched for a GPU."""


def train(
    model: nn.Module,
    batches: Batches,
    settings: TrainingSettings,
    *,
    validate: Validate | None = None,
    report: Reporter | None = None,
    folder: Path | None = None,
    resume: bool = False,
) -> EndLine:
    """Train a model on the device of its weights. The model ends with the last weights; the best
    weights are in model.safetensors in the folder.

    With `resume` the run in the folder continues as if it had not stopped: with equal batches,
    equal random numbers and equal weights. SIGINT (Ctrl-C) or SIGTERM ends training after the
    current update and validation, with everything saved; a second signal ends it at once. The
    limit `hours` ends it in the same way.

    With several processes (`regard.runtime.processes`), all of them call this function with equal
    batches and settings. Each computes its share of every update. The first process alone uses the
    folder and reports. With sharding, every process writes its own part of the training state, and
    has its own shards of the model afterwards.

    UserError if the loss is not finite, if there are no batches, or if the run cannot be resumed.
    """
    check(batches, settings, validates=validate is not None)
    total = settings.length.updates(batches, settings.accumulate)
    fingerprint = fingerprint_of(settings, batches)
    session = Session.begin(model, settings, fingerprint, report, folder, resume=resume)
    state, recorder = session.state, session.recorder
    began = time.monotonic()

    model.train()
    steps = training_steps(batches, state.epoch, state.batch, settings.accumulate)
    ahead = _prefetched(steps, next(model.parameters()).device)
    products = product_library.using(state.products)
    with products, interruptions() as signals, ahead as steps:
        if validate and settings.validate_first and state.update == 0 and not state.scores:
            session.validate_initial(validate, total)
        while not (reason := _agreed(_reason_to_end(state, total, settings, signals, began))):
            progress = _update(session, steps, total)
            if _is_due(settings.log_every, progress):
                recorder.train_line(progress)
            if validate and _is_due(settings.validate_every, progress):
                session.validate(validate, progress)
            if session.is_save_due():
                session.save()
        session.end(validate, is_complete=reason in ("finished", "patience"))
    return recorder.end_line(reason)


def _update(session: Session, steps: Iterator[UpdateBatches], total: int) -> Progress:
    """Change the weights once and return the progress."""
    settings, state = session.settings, session.state
    started = time.perf_counter()
    step = next(steps)
    progress = _advance(state, step, total)
    if step.first == 0 and settings.log_every.unit == "epoch":
        session.recorder.begin_line()  # the line of an epoch has the means of that epoch alone

    compute = partial(forward_and_backward, session.replica, settings, progress)
    losses = session.splits.compute(compute, session.replica, step.batches, state.update)
    rate, norm = settings.optimiser.step(session.adam, progress)
    state.totals.seconds += time.perf_counter() - started
    session.recorder.update(progress, losses, rate, norm)
    return progress


@dataclass(frozen=True)
class UpdateBatches:
    """Batches of one update."""

    epoch: int
    first: int
    """Number of batches of the epoch before these."""
    batches: list[Any]
    ends_epoch: bool


def training_steps(
    batches: Batches, epoch: int, first: int, accumulate: int
) -> Iterator[UpdateBatches]:
    """Yield the batches of each update, epoch after epoch, without end. No update spans two epochs:
    the last update of an epoch may have fewer batches."""
    while True:
        num_batches = batches.num_batches(epoch)
        rest = batches.epoch(epoch, first)
        while group := list(islice(rest, accumulate)):
            yield UpdateBatches(epoch, first, group, first + len(group) >= num_batches)
            first += len(group)
        epoch, first = epoch + 1, 0


def forward_and_backward(
    replica: nn.Module, settings: TrainingSettings, progress: Progress, batches: list[Any]
) -> Losses:
    """Compute the gradients of one update with the module of `replica_of`. They are summed over its
    batches and over all processes, so that they equal the gradients of one large batch."""
    device = next(replica.parameters()).device
    generator = _seed(settings.seed, progress.update, device)
    objective = settings.objective
    total = sum(objective.count(batch) for batch in batches)
    words = sum(objective.size(batch) for batch in batches)
    penalties: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    sums = []
    for number, batch in enumerate(batches, start=1):
        share, counts = share_of(batch)
        count = objective.count(share) if counts else 0
        with sums_of_gradients(replica, are_last=number == len(batches)):
            with torch.autocast(device.type, torch.bfloat16, settings.precision == "bfloat16"):
                loss = replica(share.to(device), progress, generator)
            terms = [
                penalty.value.float() * count if penalty.is_mean else penalty.value.float()
                for penalty in loss.penalties
            ]
            parts = torch.stack([loss.sum, *terms])
            parts = parts if counts else torch.zeros_like(parts) * parts
            (parts.sum() / (total / processes.number())).backward()
        measured = [measure.value.detach().float() * count for measure in loss.measures]
        sums.append(torch.stack([*parts.detach(), *measured]) if measured else parts.detach())
        penalties = tuple(penalty.name for penalty in loss.penalties)
        measures = tuple(measure.name for measure in loss.measures)
    return Losses(add_up(sums), penalties, measures, total, words)


def _prefetched(
    steps: Iterator[UpdateBatches], device: torch.device
) -> AbstractContextManager[Iterator[UpdateBatches]]:
    """Prefetch batches in a thread if training runs on a GPU. On a CPU the thread would compete
    with training."""
    return prefetched(steps, AHEAD) if device.type == "cuda" else nullcontext(steps)


def _seed(seed: int, update: int, device: torch.device) -> torch.Generator:
    """Seed the randomness of an update (dropout, teacher forcing) from the seed and the number of
    the update alone, so that no validation and no interruption before it changes it. Each of
    several processes has other random numbers."""
    place = (processes.rank(),) if processes.number() > 1 else ()
    mixed = int(np.random.SeedSequence((seed, update, *place)).generate_state(1)[0])
    if device.type == "cuda":
        torch.cuda.manual_seed(mixed)
    # torch.manual_seed takes a hundred times as long, as it also queries every kind of device
    return torch.default_generator.manual_seed(mixed)


def _advance(state: TrainingState, step: UpdateBatches, total: int) -> Progress:
    """Count this update in `state` and return the progress."""
    last = step.first + len(step.batches)
    state.update += 1
    state.epoch = step.epoch + step.ends_epoch
    state.batch = 0 if step.ends_epoch else last
    return Progress(
        update=state.update,
        total=total,
        epoch=step.epoch,
        batch=last,
        ends_epoch=step.ends_epoch,
        gains=tuple(state.gains),
    )


def _is_due(period: Period, progress: Progress) -> bool:
    return period.ends(progress) or progress.is_last


def _agreed(reason: Ending | None) -> Ending | None:
    """Return the reason of any of the processes, because a signal may have reached one alone."""
    place = processes.largest(ENDINGS.index(reason) + 1 if reason else 0)
    return ENDINGS[place - 1] if place else None


def _reason_to_end(
    state: TrainingState,
    total: int,
    settings: TrainingSettings,
    signals: Sequence[int],
    session_began: float,
) -> Ending | None:
    if state.update >= total:
        return "finished"
    waited = len(state.scores) - 1 - state.best if state.scores else 0
    if settings.patience is not None and waited >= settings.patience:
        return "patience"
    if not signals:
        hours = (time.monotonic() - session_began) / 3600
        return "hours" if settings.hours is not None and hours >= settings.hours else None
    return "terminated" if signals[0] == signal.SIGTERM else "interrupted"


@contextmanager
def interruptions() -> Iterator[Sequence[int]]:
    """Collect the first SIGINT or SIGTERM, so that training can end in order; the second signal
    acts as usual. Outside the main thread signals are not changed. Ignored signals stay ignored."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    handlers = {n: act for n, act in handlers.items() if act not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def collect(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        # Ctrl-C reaches each of several processes twice: from the terminal and from torchrun.
        if processes.number() == 1 or len(received) > 2:
            restore()

    for number in handlers:
        signal.signal(number, collect)
    try:
        yield received
    finally:
        restore()


def check(batches: Batches, settings: TrainingSettings, *, validates: bool) -> None:
    """Raise a UserError if there are no batches, or if a setting needs a dev score and there is no
    validation."""
    if batches.num_batches(1) == 0:
        raise UserError("no batches to train on: the data holds no pairs")
    needs = {
        "training.patience": settings.patience,
        "training.average": settings.average,
        "training.schedule": "plateau"
        if isinstance(settings.optimiser.schedule, Plateau)
        else None,
    }
    needs = {name: value for name, value in needs.items() if value is not None}
    if needs and not validates:
        values = " and ".join(f"{name} is {value}" for name, value in needs.items())
        unset = " and ".join(name for name in needs if name != "training.schedule")
        remedies = [f"set {unset} to None"] if unset else []
        remedies += ["choose another training.schedule"] if "training.schedule" in needs else []
        raise UserError(
            f"{values}, but no pairs are held out for the dev score: raise data.dev_size, name a "
            f"dev file, or {' and '.join(remedies)}"
        )
