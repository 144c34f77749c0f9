"""Training of a recipe of any task into a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from regard import processes, recipes
from regard.building.ram import GIB, free_ram
from regard.config import CaptionDataConfig, Data, Experiment, TrainingConfig, resolve
from regard.config.data import names_files
from regard.config.unused import Unused, unused_fields
from regard.data.files.objects import Table
from regard.device import device_named
from regard.errors import UserError
from regard.files import RECORD, check_writable
from regard.linear import has_fast_bfloat16, warn_of_slow_bfloat16
from regard.names import Precision
from regard.pipeline.check import held_out_problem
from regard.record import Record
from regard.runs import splits
from regard.runs.environment import Environment, add_session, data_files
from regard.runs.folder import RunFolder, as_lines, may_change
from regard.runs.progress import OnProgress
from regard.runs.resume import check_dev, check_folder, check_unused, training_alone
from regard.runs.splits import Split
from regard.tasks.all_tasks import task_of
from regard.tasks.checks import Finding, check_findings, length_findings
from regard.tasks.cost import num_parameters
from regard.tasks.initialisation import Initialisation
from regard.tasks.setup import TrainingSetup
from regard.training.checkpoint import Checkpoints, fingerprint_of
from regard.training.failed_batch import batches_of, write_batches
from regard.training.freezing import keep_fixed
from regard.training.log import EndLine, Reporter
from regard.training.loop import check
from regard.training.loop import train as run_loop
from regard.training.objective import Objective
from regard.training.optimiser import Optimiser
from regard.training.peak_memory import peak_of_update
from regard.training.recorder import NotFiniteError
from regard.training.replicas import share_of
from regard.training.schedule import (
    Constant,
    CosineDecay,
    InverseSquareRoot,
    LinearDecay,
    Plateau,
    Progress,
    Schedule,
)
from regard.training.settings import Batches, Period, TrainingSettings
from regard.training.trackers import check_packages, tracked


@dataclass(frozen=True)
class Plan:
    """Summary of a training before it begins."""

    folder: RunFolder
    num_pairs: int
    num_dev: int
    vocabularies: str
    """Sizes of the vocabularies, in words."""
    num_parameters: int
    num_frozen: int
    """Number of frozen parameters."""
    num_frozen_new: int
    """Number of frozen parameters that are newly initialised, not from a run or vectors."""
    precision: Precision
    device: str
    num_processes: int
    left_out: tuple[str, ...]
    """Messages about examples that are not used."""
    unused: tuple[Unused, ...]
    """Options that are set and have no effect."""
    cache_files: tuple[Path, ...]
    """Files of encoded training pairs that were added to the cache."""
    initialisation: Initialisation | None = None
    """Weights taken from another run."""
    findings: tuple[Finding, ...] = ()
    """Reasons why little can be learned."""


def train(
    experiment: Experiment,
    path: Path,
    *,
    resume: bool = False,
    begin: Callable[[Plan], Reporter | None] | None = None,
    on_progress: OnProgress | None = None,
    table: Table | None = None,
) -> EndLine:
    """Train a recipe into a run folder. `table` has data in memory, in place of a file. `begin`
    takes the plan and returns a reporter of the training. `on_progress` reports the progress of the
    preparation.

    With several processes (`regard.processes`), all of them call this function with equal
    arguments, and the folder is on a file system that all of them reach. The first process alone
    writes to it and calls `begin`.

    UserError if the folder has a run already; to resume, if it has none, or one of other settings
    or data; and if data and recipe do not fit. Nothing is written before these checks."""
    experiment, folder = resolve(experiment), RunFolder(path)
    with processes.connected():
        goes_on = processes.is_first() and _check_folder(folder, experiment, resume=resume)
        goes_on = processes.from_first(goes_on)
        with processes.first_before_others():  # the others read the cache that the first one wrote
            split = splits.read(experiment.data, on_progress, table)
            unusable = () if goes_on else tuple(Finding("stop", text) for text in split.unusable)
            check_findings(experiment.data, unusable)
            setup = task_of(experiment.data).prepare(
                experiment, split, folder if goes_on else None, on_progress
            )
        check_findings(experiment.data, () if goes_on else setup.findings)
        keep_fixed(setup.model, experiment.training.freeze)
        device = processes.own_device(device_named(experiment.training.device, "training.device"))
        setup.model.to(device)
        precision = _precision(experiment.training, device)
        settings = settings_of(experiment.training, setup.objective, precision)
        if (problem := held_out_problem(experiment, setup)) is not None:
            raise UserError(problem)
        check(setup.batches, settings, validates=setup.validate is not None)
        _check_processes(settings, setup.batches)

        def run(report: Reporter | None) -> EndLine:
            try:
                return run_loop(
                    setup.model,
                    setup.batches,
                    settings,
                    validate=setup.validate,
                    report=report,
                    folder=path,
                    resume=goes_on,
                )
            except NotFiniteError as error:
                if not processes.is_first():
                    raise
                saved = _write_failed(folder, setup, settings.accumulate, error.progress)
                raise UserError(f"{error}. Its batch is in {saved}") from error

        if not processes.is_first():
            return run(None)
        check_unused(folder)  # another training may have begun meanwhile
        checkpoints = Checkpoints(path, fingerprint_of(settings, setup.batches))
        _check_state(folder, experiment.data, checkpoints, goes_on=goes_on)
        if goes_on:
            check_dev(folder, split.dev)
        plan = Plan(
            folder=folder,
            num_pairs=setup.num_pairs,
            num_dev=len(split.dev),
            vocabularies=setup.vocabularies,
            num_parameters=num_parameters(setup.model),
            num_frozen=sum(
                each.numel() for each in setup.model.parameters() if not each.requires_grad
            ),
            num_frozen_new=0 if goes_on else _num_frozen_new(setup.model, setup),
            precision=precision,
            device=str(device),
            num_processes=processes.number(),
            left_out=split.left_out + setup.left_out,
            unused=unused_fields(experiment),
            cache_files=setup.cache_files,
            initialisation=setup.initialisation,
            findings=()
            if goes_on
            else (
                *unusable,
                *setup.findings,
                *_length_findings(experiment, setup.batches),
                *_memory_findings(setup, device, precision),
            ),
        )
        with training_alone(folder):
            check_folder(folder, experiment, resume=resume)
            _write(folder, setup, split, goes_on=goes_on)
            files = data_files(experiment.data)
            add_session(folder, Environment.now(device, experiment.training.seed, files))
            reporter = begin(plan) if begin else None
            fields = {name: str(value) for name, value in recipes.flat(asdict(setup.experiment))}
            with tracked(
                reporter, experiment.training.track, path, experiment.name, fields
            ) as report:
                return run(report)


def _write_failed(
    folder: RunFolder, setup: TrainingSetup, accumulate: int, progress: Progress
) -> str:
    """Write the batches of an update whose loss is not finite: as tensors, and as lines for a task
    that describes them. Return the names of the files."""
    batches = batches_of(setup.batches, progress, accumulate)
    write_batches(folder.failed_batch, batches)
    if setup.describe is None:
        return str(folder.failed_batch)
    text = folder.failed_batch.with_suffix(".tsv")
    folder.write(text, "".join(f"{line}\n" for batch in batches for line in setup.describe(batch)))
    return f"{folder.failed_batch} (as text in {text.name})"


def _check_folder(folder: RunFolder, experiment: Experiment, *, resume: bool) -> bool:
    """Return whether training continues from a state in the folder. UserError if the folder cannot
    be used, or if the package of a tracker is missing."""
    goes_on = check_folder(folder, experiment, resume=resume)
    check_unused(folder)
    check_writable(folder.path)
    check_packages(experiment.training.track)
    return goes_on


def _check_processes(settings: TrainingSettings, batches: Batches) -> None:
    """Raise a UserError unless all processes have equal settings and data."""
    if not processes.all_equal((settings.sharding, fingerprint_of(settings, batches))):
        raise UserError(
            "the processes of this training have different data or settings: start all of them "
            "with the same command and the same files"
        )


def _check_state(folder: RunFolder, data: Data, checkpoints: Checkpoints, *, goes_on: bool) -> None:
    """Raise a UserError unless the folder has the training state of this run."""
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


def _length_findings(experiment: Experiment, batches: Batches) -> tuple[Finding, ...]:
    """Return the findings about the length of a training on data of the user's own, unless it is a
    number of updates."""
    config = experiment.training
    if not names_files(experiment.data) or config.updates or config.validate_every:
        return ()
    updates = Period(1, "epoch").updates(batches, config.accumulate)
    return length_findings(updates, config.epochs, config.patience)


def _memory_findings(
    setup: TrainingSetup, device: torch.device, precision: Precision
) -> tuple[Finding, ...]:
    """Return a finding if an update on the longest batch takes more memory than there is."""
    if setup.longest is None:
        return ()
    batch, _ = share_of(setup.longest())
    needed = peak_of_update(setup.model, setup.objective, batch, precision)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_ram()
    if needed <= free:
        return ()
    text = (
        f"an update on the longest batch takes about {needed / GIB:,.1f} GiB of memory "
        f"(estimated), but {free / GIB:,.1f} GiB are free: lower --data.batch-tokens or "
        "--data.batch-sentences, with --training.accumulate for as many pairs in an update"
    )
    return (Finding("warn", text),)


def _num_frozen_new(model: nn.Module, setup: TrainingSetup) -> int:
    """Return the number of frozen parameters that are newly initialised."""
    if getattr(setup.experiment.model, "vectors", None) is not None:
        return 0
    copied = (
        setup.initialisation.copied + setup.initialisation.by_words if setup.initialisation else ()
    )
    fixed = (each for each in model.named_parameters() if not each[1].requires_grad)
    return sum(weight.numel() for name, weight in fixed if name not in copied)


def _write(folder: RunFolder, setup: TrainingSetup, split: Split, *, goes_on: bool) -> None:
    """Write all files except those of the loop. The configuration is first: a run that is killed
    here can start again from it."""
    folder.write(folder.config, recipes.dump(setup.experiment))
    if goes_on:
        if (record := Record.read(folder.path)) is not None:
            folder.write_record(record.run)
        return
    folder.log.unlink(missing_ok=True)
    folder.environment.unlink(missing_ok=True)
    setup.save_vocabularies(folder)
    for path, pairs in ((folder.dev, split.dev), (folder.test, split.test)):
        if pairs:
            folder.write(path, as_lines(pairs))
    folder.write_record(_identity(setup))


def _identity(setup: TrainingSetup) -> str:
    """Return the identity of a run: a digest of data and settings, except the training length."""
    fields = recipes.flat(asdict(setup.experiment))
    fixed = sorted((name, str(value)) for name, value in fields if not may_change(name))
    return hashlib.sha256(f"{fixed} {setup.batches.fingerprint()}".encode()).hexdigest()


def settings_of(
    config: TrainingConfig, objective: Objective, precision: Precision
) -> TrainingSettings:
    """Return the settings of the training loop from those of a recipe."""
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
        sharding=config.sharding,
        accumulate=config.accumulate,
        validate_every=Period(config.validate_every)
        if config.validate_every
        else Period(1, "epoch"),
        patience=config.patience,
        hours=config.hours,
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
