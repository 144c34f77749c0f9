"""From a recipe to a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from regard import recipes
from regard.config import (
    AnswerDataConfig,
    CaptionDataConfig,
    Data,
    DataConfig,
    Experiment,
    TrainingConfig,
)
from regard.config.unused import Unused, unused_fields
from regard.device import device_named
from regard.errors import UserError
from regard.files import RECORD, check_writable
from regard.linear import has_fast_bfloat16, warn_of_slow_bfloat16
from regard.names import Precision
from regard.record import Record
from regard.runs import splits
from regard.runs.folder import RunFolder, as_lines, may_change
from regard.runs.progress import OnProgress
from regard.runs.resume import check_dev, check_folder, check_unused, training_alone
from regard.runs.splits import Split
from regard.tasks.captioning import training as captioning
from regard.tasks.classification import training as classification
from regard.tasks.setup import Prepared
from regard.tasks.translation import training as translation
from regard.tasks.translation.initialisation import Beginning
from regard.training.checkpoint import Checkpoints, fingerprint_of
from regard.training.freezing import keep_fixed
from regard.training.log import EndLine, Reporter
from regard.training.loop import check
from regard.training.loop import train as run_loop
from regard.training.objective import Objective
from regard.training.optimiser import Optimiser
from regard.training.schedule import (
    Constant,
    CosineDecay,
    InverseSquareRoot,
    LinearDecay,
    Plateau,
    Schedule,
)
from regard.training.settings import Period, TrainingSettings


@dataclass(frozen=True)
class Plan:
    """What is about to be trained, for whoever wants to say so first."""

    folder: RunFolder
    num_pairs: int
    num_dev: int
    vocabularies: str
    """What there is on both sides, in words."""
    num_parameters: int
    num_frozen: int
    """Parameters that stay as they are."""
    num_frozen_new: int
    """Of these, those that begin with new weights, neither another run's nor vectors."""
    precision: Precision
    device: str
    left_out: tuple[str, ...]
    unused: tuple[Unused, ...]
    """Fields that are set and have no effect beside the others."""
    made: Path | None
    """The file in the cache that the training pairs were written to, where one was."""
    beginning: Beginning | None = None
    """What of another run the model began with."""


def train(
    experiment: Experiment,
    path: Path,
    *,
    resume: bool = False,
    begin: Callable[[Plan], Reporter | None] | None = None,
    on_progress: OnProgress | None = None,
) -> EndLine:
    """Train a recipe into a run folder. `on_progress` follows the preparation of the data.
    `begin` takes the plan and returns the reporter of the training.

    UserError where the folder holds a run already, or, to resume, none or one of other settings or
    data; where the data or the recipe do not fit. Nothing is written before all of that is known.
    """
    folder = RunFolder(path)
    goes_on = check_folder(folder, experiment, resume=resume)
    check_unused(folder)
    check_writable(path)
    split = splits.read(experiment.data, on_progress)
    ready = prepare_task(experiment, split, folder if goes_on else None, on_progress)
    model, batches = ready.model, ready.batches
    keep_fixed(model, experiment.training.freeze)
    device = device_named(experiment.training.device, "training.device")
    model.to(device)
    precision = _precision(experiment.training, device)
    settings = settings_of(experiment.training, ready.objective, precision)
    check(batches, settings, validates=ready.validate is not None)
    check_unused(folder)  # another training may have begun meanwhile
    checkpoints = Checkpoints(path, fingerprint_of(settings, batches))
    _check_state(folder, experiment.data, checkpoints, goes_on=goes_on)
    if goes_on:
        check_dev(folder, split.dev)
    plan = Plan(
        folder=folder,
        num_pairs=ready.num_pairs,
        num_dev=len(split.dev),
        vocabularies=ready.vocabularies,
        num_parameters=sum(each.numel() for each in model.parameters()),
        num_frozen=sum(each.numel() for each in model.parameters() if not each.requires_grad),
        num_frozen_new=0 if goes_on else _num_frozen_new(model, ready),
        precision=precision,
        device=str(device),
        left_out=split.left_out + ready.left_out,
        unused=unused_fields(experiment),
        made=ready.made,
        beginning=ready.beginning,
    )
    with training_alone(folder):
        check_folder(folder, experiment, resume=resume)
        _write(folder, ready, split, goes_on=goes_on)
        return run_loop(
            model,
            batches,
            settings,
            validate=ready.validate,
            report=begin(plan) if begin else None,
            folder=path,
            resume=goes_on,
        )


def _check_state(folder: RunFolder, data: Data, checkpoints: Checkpoints, *, goes_on: bool) -> None:
    """UserError unless the training state in the folder is that of this run."""
    try:
        checkpoints.check(resume=goes_on)
    except UserError as error:
        is_old = goes_on and Record.read(folder.path) is None
        if not (is_old and isinstance(data, CaptionDataConfig) and "fingerprint" in str(error)):
            raise
        raise UserError(
            f"{error}. {folder.path} has no {RECORD}: a captioning run of version 0.1 cannot be "
            "resumed, because images have another fingerprint since"
        ) from error


def _num_frozen_new(model: nn.Module, ready: Prepared) -> int:
    """Parameters that stay as the seed made them."""
    if getattr(ready.experiment.model, "vectors", None) is not None:
        return 0
    taken = ready.beginning.copied + ready.beginning.by_words if ready.beginning else ()
    fixed = (each for each in model.named_parameters() if not each[1].requires_grad)
    return sum(weight.numel() for name, weight in fixed if name not in taken)


def prepare_task(
    experiment: Experiment, split: Split, resumed: RunFolder | None, on_progress: OnProgress | None
) -> Prepared:
    """What the task of these data makes of them. Weights follow from the seed."""
    match experiment.data:
        case DataConfig():
            return translation.prepare(experiment, experiment.data, split, resumed, on_progress)
        case AnswerDataConfig():
            return classification.prepare(experiment, experiment.data, split, resumed)
        case CaptionDataConfig():
            return captioning.prepare(experiment, experiment.data, split, resumed, on_progress)


def _write(folder: RunFolder, ready: Prepared, split: Split, *, goes_on: bool) -> None:
    """Write all files but those of the loop. The configuration comes first: a run that is killed
    here begins again by it."""
    folder.write(folder.config, recipes.dump(ready.experiment))
    if goes_on:
        if (record := Record.read(folder.path)) is not None:
            folder.write_record(record.run)
        return
    folder.log.unlink(missing_ok=True)
    ready.save_vocabularies(folder)
    for path, pairs in ((folder.dev, split.dev), (folder.test, split.test)):
        if pairs:
            folder.write(path, as_lines(pairs))
    folder.write_record(_identity(ready))


def _identity(ready: Prepared) -> str:
    """Return what names a run: the same for the same data and settings, however long it trains."""
    fields = recipes.flat(asdict(ready.experiment))
    fixed = sorted((name, str(value)) for name, value in fields if not may_change(name))
    return hashlib.sha256(f"{fixed} {ready.batches.fingerprint()}".encode()).hexdigest()


def settings_of(
    config: TrainingConfig, objective: Objective, precision: Precision
) -> TrainingSettings:
    """The training stage's own records from a recipe's."""
    return TrainingSettings(
        length=Period(config.updates) if config.updates else Period(config.epochs, "epoch"),
        optimiser=Optimiser(
            config.learning_rate,
            _schedule(config),
            config.weight_decay,
            config.clip,
            config.adam_betas,
            config.adam_epsilon,
        ),
        objective=objective,
        precision=precision,
        accumulate=config.accumulate,
        validate_every=Period(config.validate_every)
        if config.validate_every
        else Period(1, "epoch"),
        patience=config.patience,
        average=config.average,
        log_every=Period(config.log_every, config.log_by),
        seed=config.seed,
    )


def _schedule(config: TrainingConfig) -> Schedule:
    match config.schedule:
        case "constant":
            return Constant(config.warmup)
        case "cosine":
            return CosineDecay(config.warmup)
        case "linear":
            return LinearDecay(config.warmup)
        case "inverse_square_root":
            return InverseSquareRoot(config.warmup)
        case "plateau":
            return Plateau(config.warmup)


def _precision(config: TrainingConfig, device: torch.device) -> Precision:
    if config.precision == "auto":
        return "bfloat16" if has_fast_bfloat16(device) else "float32"
    if config.precision == "bfloat16":
        warn_of_slow_bfloat16("training.precision", device)
    return config.precision
