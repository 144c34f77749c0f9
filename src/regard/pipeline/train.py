"""Training of a recipe of any task into a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from regard import recipes
from regard.config import Experiment, TrainingConfig, resolve
from regard.corpora import splits
from regard.corpora.splits import Split
from regard.data.recognition.table import Table
from regard.errors import UserError
from regard.names import Precision
from regard.numerics.linear import has_fast_bfloat16, warn_of_slow_bfloat16
from regard.pipeline.check import held_out_problem
from regard.pipeline.plan import Plan, reasons_to_stop
from regard.runs.environment import Environment, add_session, data_files
from regard.runs.folder import RunFolder, as_lines, may_change
from regard.runs.resume import (
    alternative,
    check_dev,
    check_folder,
    check_unused,
    training_alone,
)
from regard.runtime import processes
from regard.runtime.device import cpu_by_default, device_named, float32_by_default
from regard.runtime.progress import OnProgress
from regard.storage.files import check_writable
from regard.storage.record import Record
from regard.tasks.all_tasks import task_of
from regard.tasks.training.checks import check_findings
from regard.tasks.training.setup import TrainingSetup
from regard.tasks.training.teachers import describe_change
from regard.training.checkpoint import ChangedSettingError, Checkpoints, fingerprint_of
from regard.training.failed_batch import batches_of, write_batches
from regard.training.freezing import keep_fixed
from regard.training.log import EndLine, Reporter
from regard.training.loop import check
from regard.training.loop import train as run_loop
from regard.training.objectives.objective import Objective
from regard.training.optimiser import Optimiser
from regard.training.recorder import NotFiniteError
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


@cpu_by_default()
@float32_by_default()
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

    With several processes (`regard.runtime.processes`), all of them call this function with equal
    arguments, and the folder is on a file system that all of them reach. The first process alone
    writes to it and calls `begin`.

    UserError if the folder has a run already; to resume, if it has none, or one of other settings
    or data; and if data and recipe do not fit. Nothing is written before these checks."""
    experiment, folder = resolve(experiment), RunFolder(path)
    with processes.connected():
        goes_on = processes.is_first() and check_start(experiment, folder, resume=resume)
        goes_on = processes.from_first(goes_on)
        split, setup = _prepare(experiment, folder, on_progress, table, resume=goes_on)
        training = _begin(experiment, folder, split, setup, resume=goes_on)
        if not processes.is_first():
            return training.run(None)
        training.check_state()
        plan = training.plan()
        check_findings(experiment.data, plan.findings)
        with training_alone(folder):
            check_folder(folder, experiment, resume=resume)
            training.write_files()
            reporter = begin(plan) if begin else None
            with training.tracked(reporter) as report:
                return training.run(report)


def _prepare(
    experiment: Experiment,
    folder: RunFolder,
    on_progress: OnProgress | None,
    table: Table | None,
    *,
    resume: bool,
) -> tuple[Split, TrainingSetup]:
    """Read the data and build the model. UserError if they cannot be used; a training that is
    resumed was checked when it began."""
    with processes.first_before_others():  # the others read the cache that the first one wrote
        split = splits.read(experiment.data, on_progress, table)
        check_findings(experiment.data, () if resume else reasons_to_stop(split))
        setup = task_of(experiment.data).prepare(
            experiment, split, folder if resume else None, on_progress
        )
    check_findings(experiment.data, () if resume else setup.findings)
    return split, setup


def _begin(
    experiment: Experiment,
    folder: RunFolder,
    split: Split,
    setup: TrainingSetup,
    *,
    resume: bool,
) -> _Training:
    """Move the model to its device and return the training. UserError if the settings do not fit
    the data, or if the processes have different ones."""
    keep_fixed(setup.model, experiment.training.freeze)
    device = processes.own_device(device_named(experiment.training.device, "training.device"))
    setup.model.to(device)
    precision = _precision(experiment.training, device)
    settings = settings_of(experiment.training, setup.objective, precision)
    if (problem := held_out_problem(experiment, setup)) is not None:
        raise UserError(problem)
    check(setup.batches, settings, validates=setup.validate is not None)
    _check_processes(settings, setup.batches)
    return _Training(experiment, folder, split, setup, device, settings, resume)


@dataclass(frozen=True)
class _Training:
    """A training whose data, model and settings are checked."""

    experiment: Experiment
    folder: RunFolder
    split: Split
    setup: TrainingSetup
    device: torch.device
    settings: TrainingSettings
    resume: bool
    """Whether a training state of the folder is continued."""

    def check_state(self) -> None:
        """Raise a UserError if the folder is in use, or has no state and no dev split of this
        training."""
        check_unused(self.folder)  # another training may have begun meanwhile
        fingerprint = fingerprint_of(self.settings, self.setup.batches)
        checkpoints = Checkpoints(self.folder.path, fingerprint)
        try:
            checkpoints.check(resume=self.resume)
        except ChangedSettingError as error:
            change = f"{error}. Restore it"
            if error.name == "objective.teachers":
                teachers = describe_change(self.experiment.training, error.was)
                change = f"cannot resume {self.folder.path}: {teachers}"
            raise UserError(f"{change}, or {alternative(self.folder)}") from error
        if self.resume:
            check_dev(self.folder, self.split.dev)

    def plan(self) -> Plan:
        return Plan.of(
            self.experiment,
            self.folder,
            self.split,
            self.setup,
            self.device,
            self.settings.precision,
            resume=self.resume,
        )

    def write_files(self) -> None:
        """Write all files of the run except those of the loop."""
        _write(self.folder, self.setup, self.split, goes_on=self.resume)
        files = data_files(self.experiment.data)
        seed = self.experiment.training.seed
        add_session(self.folder, Environment.now(self.device, seed, files))

    def tracked(self, reporter: Reporter | None) -> AbstractContextManager[Reporter | None]:
        """Return a context with the reporter that also informs the trackers."""
        experiment = self.experiment
        fields = {name: str(value) for name, value in recipes.flat(asdict(self.setup.experiment))}
        return tracked(
            reporter, experiment.training.track, self.folder.path, experiment.name, fields
        )

    def run(self, report: Reporter | None) -> EndLine:
        """Train. UserError if the loss is not finite, with the file of its batch."""
        try:
            return run_loop(
                self.setup.model,
                self.setup.batches,
                self.settings,
                validate=self.setup.validate,
                report=report,
                folder=self.folder.path,
                resume=self.resume,
            )
        except NotFiniteError as error:
            if not processes.is_first():
                raise
            saved = _write_failed(self.folder, self.setup, self.settings.accumulate, error.progress)
            raise UserError(f"{error}. Its batch is in {saved}") from error


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


def check_start(experiment: Experiment, folder: RunFolder, *, resume: bool) -> bool:
    """Return whether the training of an experiment without unset fields (`resolve`) continues from
    a state in the folder. UserError if the folder cannot be used, or if the package of a tracker is
    missing."""
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
        validate_first=config.initial_run is not None,
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
