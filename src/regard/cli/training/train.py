"""`regard train`: train a recipe, or the recipe that suits a data file."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from regard.cli.output import say
from regard.cli.parsing.experiments import (
    HELP,
    Named,
    choose_experiment,
    data_after_recipe,
    expand_shortcuts,
    find_experiment,
    has_help_option,
    is_data_file,
    remove_option,
)
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse as parse_options
from regard.cli.parsing.options import read, typed_values
from regard.cli.parsing.train_help import full_help, short_help
from regard.cli.progress import PreparationView, TrainingView
from regard.config import Experiment, ModelConfig, TrainingConfig, resolve
from regard.config.checks import Count, CountOrZero
from regard.config.corpora import have_equal_weights
from regard.config.models import has_attention, inheriting
from regard.config.unused import unused_fields
from regard.corpora.table_settings import named_value, run_name
from regard.errors import UsageError, UserError
from regard.runs.folder import RunFolder
from regard.runs.resume import COMMAND
from regard.runtime import torchrun
from regard.runtime.signals import INTERRUPTED, TERMINATED
from regard.storage.files import shorten_name

if TYPE_CHECKING:
    from regard.pipeline.plan import Plan
    from regard.training.log import EndLine


@dataclass(frozen=True)
class Options:
    """Train a recipe (`regard recipes` lists them), or the recipe that suits a data file. Every
    field of a recipe is an option. The recipe or file comes first. Ctrl-C stops safely; --resume
    continues."""

    recipe: Positional[str]
    """Name of a recipe, a recipe file, or a data file."""
    output: Path | None = None
    """Folder to write the run to (default: runs/NAME, named after the data file, or else after the
    recipe)."""
    resume: bool = False
    """Continue the run in the folder. The result is that of an uninterrupted run."""
    processes: Count = 1
    """Number of processes that train the model together on this machine. `torchrun` starts them on
    several machines."""
    max_restarts: CountOrZero = 0
    """With --processes: how often all processes are started again, from the last saved state, after
    one of them has failed."""
    experiment: Experiment = field(default_factory=Experiment)


PROG = "regard train"
STATUS = {"interrupted": INTERRUPTED, "terminated": TERMINATED}
"""Exit status of a training that a signal ended."""
DATA_FILE = (
    "expected at most one data file, which exists and comes right after the recipe, or --data.path "
    "FILE"
)


def run(arguments: list[str]) -> int:
    """Train with a progress display; return 130 after Ctrl-C, 143 after SIGTERM."""
    if torchrun.rank() > 0:
        return _run_beside_first(arguments)
    try:
        return _train(arguments)
    except UserError as error:
        if COMMAND not in str(error):
            raise
        rest = remove_option(remove_option(arguments, "-o"), "--output")
        own = ["regard", "train", *(word for word in rest if word != "--resume")]
        raise UserError(str(error).replace(COMMAND, shlex.join(own))) from error


def _train(arguments: list[str]) -> int:
    messages: list[str] = []
    options = _parse_restarted(arguments, messages.append)
    folder = folder_of(options)
    if options.processes > 1 and not torchrun.is_used():
        from regard.pipeline.launch import launch
        from regard.pipeline.train import check_start

        run = RunFolder(folder)
        check_start(resolve(options.experiment), run, resume=options.resume)
        return launch(["train", *arguments], options.processes, options.max_restarts, run)
    for message in messages:
        say(message)
    from regard.pipeline.train import train

    ended_after = _update_of_end(folder) if options.resume else None
    with training_views(_inherited(options, arguments)) as views:
        end = train(
            options.experiment,
            folder,
            resume=options.resume,
            begin=views.start_training,
            on_progress=views.preparation,
        )
    if end.update == ended_after:
        _say_complete(end, options.experiment.training, folder)
    else:
        _diagnose(end, options.experiment, folder)
    if end.interrupted or end.reason == "hours":
        several = ["--processes", str(options.processes)] if options.processes > 1 else []
        again = ["regard", "train", options.recipe, "-o", str(folder), "--resume", *several]
        say(f"saved; resume with: {shlex.join(again)}")
        _draw_curve(folder)
        return STATUS.get(end.reason, 0)
    say(f"try it: {'    '.join(_next_commands(options.experiment, folder))}")
    _draw_curve(folder)
    return 0


def _run_beside_first(arguments: list[str]) -> int:
    """Train in a process other than the first one, which alone prints."""
    options = _parse_restarted(arguments, on_message=lambda _: None)
    from regard.pipeline.train import train

    end = train(options.experiment, folder_of(options), resume=options.resume)
    return STATUS.get(end.reason, 0)


def _parse_restarted(arguments: list[str], on_message: Callable[[str], None]) -> Options:
    """Return the options. Processes that were started again resume the run that they began."""
    options = parse(arguments, on_message)
    if not torchrun.num_restarts():
        return options
    from regard.pipeline.launch import saved_update

    run = RunFolder(folder_of(options))
    update = saved_update(run)
    place = (
        f"continues from update {update:,}" if update else "begins again, as no update was saved"
    )
    on_message(
        f"restart {torchrun.num_restarts()} of {torchrun.max_restarts()}, since a process failed: "
        f"the training {place}"
    )
    if not options.resume and run.config.exists():
        return parse([*arguments, "--resume"], on_message)
    return options


def _log_of(folder: Path) -> list[Mapping[str, Any]]:
    """Return the lines of the log of a run. Empty if it has none yet."""
    from regard.viewing.curve import read_log

    log = RunFolder(folder).log
    return read_log(log) if log.exists() else []


def _update_of_end(folder: Path) -> int | None:
    """Return the number of updates after which the training of a run ended. None if it was killed
    or did not begin."""
    records = _log_of(folder)
    return records[-1].get("update") if records and records[-1]["kind"] == "end" else None


def _say_complete(end: EndLine, training: TrainingConfig, folder: Path) -> None:
    """Say that a resumed training was complete already, and which option continues it."""
    match end.reason:
        case "patience":
            option = f"--training.patience above {training.patience}, or None"
        case "finished" if training.updates is not None:
            option = f"--training.updates above {training.updates}"
        case "finished":
            option = f"--training.epochs above {training.epochs}"
        case _:
            return
    say(
        f"{folder} was complete already, after {end.update:,} updates, so nothing was trained; to "
        f"train it longer: {option}"
    )


def _diagnose(end: EndLine, experiment: Experiment, folder: Path) -> None:
    """Print the likely cause if nothing was learned."""
    from regard.pipeline.diagnosis import diagnose_run

    diagnosis = diagnose_run(end, RunFolder(folder), experiment)
    if diagnosis is not None:
        say(diagnosis)


def _next_commands(experiment: Experiment, folder: Path) -> list[str]:
    """Return commands that use the trained model and draw its attention. Without attention, the
    gradient of texts is drawn, or the feature maps of images."""
    run, task = shlex.quote(str(folder)), experiment.data.task
    if task != "caption":
        return [f"regard {task} {run}", f'regard plot {run} "some text"']
    figure = "-o attention.png" if has_attention(experiment.model) else "--feature-maps -o maps.png"
    return [f"regard caption {run} IMAGE", f"regard plot {run} IMAGE {figure}"]


def parse(arguments: list[str], on_message: Callable[[str], None] = say) -> Options:
    """Return the options. Their defaults are the values of the recipe, or of the resumed run.
    `on_message` takes each line about the data file and about unused fields of the recipe."""
    if not arguments:
        raise UsageError(
            "name a recipe (`regard recipes` lists them) or a data file, as in `regard train "
            "pairs.tsv`"
        )
    if has_help_option(typed_values(arguments[:1])):
        _print_help(Experiment(), arguments)
    if arguments[0].startswith("-"):
        # The recipe sets the defaults of the options, so it must be known before them.
        raise UsageError(
            f"{shorten_name(arguments[0])} precedes the recipe: name the recipe or data file "
            "first, as in `regard train RECIPE --training.epochs 5`"
        )
    output = _default_output(arguments)
    arguments = expand_shortcuts(arguments)
    named = typed_values(arguments)
    chosen = choose_experiment(arguments)
    default = Options(recipe=arguments[0], output=output, experiment=chosen.experiment)
    if has_help_option(named):
        read(Options, [word for word in arguments if word not in HELP], default)
        _print_help(resolve(default.experiment), arguments)
    options = parse_options(Options, arguments, PROG, default, remedy=DATA_FILE)
    if not options.resume:
        _check_shared(options.experiment.model, named)
        for message in chosen.messages:
            on_message(message)
        return options
    default = replace(default, experiment=_resumed(options, default.experiment))
    _check_kinds(folder_of(options), default.experiment.model, named)
    return parse_options(Options, arguments, PROG, default, remedy=DATA_FILE)


def _default_output(arguments: list[str]) -> Path | None:
    """Return the folder of a run that is named after the data file behind the recipe. None if there
    is no such file, or if --name names the run."""
    if typed_values(arguments).get("name"):
        return None
    name = run_name(Path(data_after_recipe(arguments) or ""))
    return Path("runs") / name if name else None


def _print_help(experiment: Experiment, arguments: list[str]) -> NoReturn:
    """Print the options with the values of this experiment and exit."""
    print(full_help(experiment) if "--help-all" in arguments else short_help(experiment))
    raise SystemExit(0)


def _check_shared(model: ModelConfig, named: Named) -> None:
    """Raise a UserError for a size or dropout of the model that no part inherits."""
    for name in ("size", "dropout"):
        if f"model.{name}" in named and not inheriting(model, name):
            options = " or ".join(
                f"--model.{part}.{name}"
                for part, record in model.parts.items()
                if hasattr(record, name)
            )
            raise UserError(
                f"--model.{name} has no effect: every part sets its own {name}; use {options}"
            )


def _resumed(options: Options, recipe: Experiment) -> Experiment:
    """Return the experiment of the resumed run with the file names of this call, because files may
    have moved. Training checks that their contents are equal.

    UserError if the run is of another recipe."""
    folder = folder_of(options)
    run = RunFolder(folder).experiment()
    differs = recipe.about != run.about or not recipe.about
    if not is_data_file(options.recipe) and options.experiment.name != run.name and differs:
        raise UserError(
            f"{folder} is a run of {run.name}, not of {options.recipe}: repeat the command of its "
            "training with --resume, or name another folder with -o"
        )
    if recipe.data.path is not None and run.data.synthetic is not None:
        raise UserError(
            f"{folder} was trained on synthetic data ({run.data.synthetic}), not on "
            f"{recipe.data.path}: name its recipe, or another folder with -o"
        )
    return replace(
        run, data=_with_paths(run.data, recipe.data), model=_with_paths(run.model, recipe.model)
    )


def _check_kinds(folder: Path, model: ModelConfig, named: Named) -> None:
    """Raise a UserError for an option that names another kind than the resumed run has."""
    for part, record in model.parts.items():
        kind = named_value(named, f"model.{part}.kind", str) or record.kind
        if kind != record.kind:
            raise UserError(
                f"cannot resume {folder}: model.{part}.kind was {record.kind} and is {kind} now. "
                "Put it back, or train in a new folder"
            )


def _with_paths(record: Any, other: Any) -> Any:
    """Return the record with the paths of `other`."""
    paths = {}
    for name in (entry.name for entry in fields(record)):
        value, path = getattr(record, name), getattr(other, name, None)
        if is_dataclass(value):
            paths[name] = _with_paths(value, path)
        elif isinstance(path, Path) or (name == "mix" and have_equal_weights(value, path)):
            paths[name] = path
    return replace(record, **paths)


def folder_of(options: Options) -> Path:
    """Return the folder of --output, by default runs/NAME."""
    return options.output or Path("runs") / options.experiment.name


class Views(NamedTuple):
    """Views of the progress of preparation and training."""

    preparation: PreparationView
    start_training: Callable[[Plan], TrainingView]
    """Function that stops the view of the preparation, prints a summary of the plan and returns the
    view of the training."""


def _inherited(options: Options, arguments: list[str]) -> frozenset[str]:
    """Return the unused fields that the command line did not set. Those of a new run have the
    recipe's value and are in use in the recipe. A resumed run has all others from its own
    configuration."""
    named = typed_values(arguments)
    if options.resume:
        names = {unused.name for unused in unused_fields(options.experiment)}
        return frozenset(name for name in names if not _is_typed(name, named))
    recipe, experiment = find_experiment(options.recipe, named), options.experiment
    own = {unused.name for unused in unused_fields(recipe)}
    names = {unused.name for unused in unused_fields(experiment)} - own
    return frozenset(name for name in names if attrgetter(name)(experiment) == _value(recipe, name))


def _is_typed(name: str, named: Named) -> bool:
    """Whether an option sets this field, or a field of this part."""
    return any(option == name or option.startswith(f"{name}.") for option in named)


def _value(recipe: Experiment, name: str) -> object:
    try:
        return attrgetter(name)(recipe)
    except AttributeError:  # a field of another family or task
        return None


@contextlib.contextmanager
def training_views(inherited: Container[str] = ()) -> Iterator[Views]:
    """Return the views of a training. They stop when the block ends, also after an exception.
    Unused fields are reported unless they are in `inherited`."""
    with contextlib.ExitStack() as stack:
        preparation = stack.enter_context(PreparationView())

        def start_training(plan: Plan) -> TrainingView:
            preparation.stop()
            return stack.enter_context(_announce(plan, inherited))

        yield Views(preparation, start_training)


def _announce(plan: Plan, inherited: Container[str]) -> TrainingView:
    """Print a summary of the training that starts, and return its view."""
    for line in plan.left_out:
        say(line)
    for finding in plan.findings:
        say(f"warning: {finding.text}")
    for unused in plan.unused:
        if unused.name not in inherited:
            say(f"warning: {unused}")
    if plan.cache_files:
        size = sum(path.stat().st_size for path in plan.cache_files) / 1e6
        say(
            f"cached the encoded pairs in {plan.cache_files[0].parent} ({size:,.0f} MB) for the "
            "next run; files in this folder can be removed at any time"
        )
    if plan.initialisation is not None:
        say(str(plan.initialisation))
    if plan.num_frozen_new:
        say(
            f"training.freeze freezes {plan.num_frozen_new:,} newly initialised parameters: use "
            "--init-from RUN to start from the weights of a run"
        )
    frozen = f" ({plan.num_frozen:,} frozen)" if plan.num_frozen else ""
    together = f", {plan.num_processes} processes" if plan.num_processes > 1 else ""
    say(
        f"{plan.num_pairs:,} pairs, {plan.num_dev:,} for the dev score; {plan.vocabularies}; "
        f"{plan.num_parameters:,} parameters{frozen}; "
        f"{plan.precision} on {plan.device}{together}; run {plan.folder.path}"
    )
    metrics = [line["metric"] for line in _log_of(plan.folder.path) if line["kind"] == "dev"]
    return TrainingView(lines=plan.num_dev == 0, metric=metrics[-1] if metrics else "score")


def _draw_curve(folder: Path) -> None:
    """Plot the learning curve, if the log has a line to plot. It has none if the training was
    interrupted before its first line."""
    from regard.viewing import curve

    run_folder = RunFolder(folder)
    if any(record["kind"] in ("train", "dev") for record in curve.read_log(run_folder.log)):
        curve.save(run_folder.log, run_folder.curve)
