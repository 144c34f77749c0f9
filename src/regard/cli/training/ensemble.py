"""`regard ensemble`: train the members of an ensemble."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from regard.cli.output import say
from regard.cli.parsing.help import Positional
from regard.cli.training import sweep, train
from regard.config.checks import Count, Range
from regard.errors import UsageError, UserError

HELP_EXAMPLES = (
    ("regard ensemble letters pairs.tsv", "five members"),
    ("regard ensemble g2p pairs.tsv --members 3 -o ensembles/greek", "three, in this folder"),
)
SWEEP_OPTIONS = ("--vary", "--address", "--gpus")


@dataclass(frozen=True)
class Options:
    """Train a recipe once for each member of an ensemble, with different seeds and side by side.
    The folder of the ensemble takes the place of a run in translate, evaluate, score, plot and
    regard.load. Repeat the command to continue an interrupted training, or with more members to
    extend the ensemble. All other options are those of `regard train`, for all members."""

    recipe: Positional[str]
    """Name of a recipe, a recipe file, or a data file."""
    file: Positional[Path | None] = None
    """Data file of the recipe (default: that of the recipe)."""
    members: Annotated[int, Range(2, 100)] = 5
    """Number of members, with the seeds training.seed, training.seed + 1, ..."""
    output: Path | None = None
    """Folder of the ensemble (default: ensembles/NAME)."""
    workers: Count | None = None
    """Number of trainings at a time (default: number of cores / threads)."""
    threads: Count = 1
    """Number of threads of each training."""


def run(arguments: list[str]) -> int:
    """Train all members and write the folder of the ensemble; return 1 if a training failed."""
    options, record = sweep.parse(Options, arguments, "ensemble")
    if not {word.partition("=")[0] for word in record.arguments}.isdisjoint(SWEEP_OPTIONS):
        raise UsageError(
            "--vary, --address and --gpus are for `regard sweep`: the members of an ensemble "
            "differ in their seeds only, and are trained on the CPUs of this machine"
        )
    folder = sweep.folder_of(options.output, record)
    messages: list[str] = []
    experiment = train.parse([*record.arguments], messages.append).experiment
    if experiment.data.task != "translate":
        raise UserError(
            f"data.task is {experiment.data.task}: expected translate, as only models that "
            "translate can be an ensemble; `regard sweep` trains others with several seeds"
        )
    first = experiment.training.seed
    seeds = (f"training.seed={first}..{first + options.members - 1}",)
    from regard.runs.ensemble import runs_in, save_ensemble
    from regard.runs.folder import RunFolder
    from regard.studies.sweep import argument_of, is_complete, jobs_of

    members = [job.folder for job in jobs_of(seeds, folder)]
    for member in members:
        if is_complete(RunFolder(member)):
            _check_members([member])
    jobs = sweep.Options(
        options.recipe,
        seeds,
        output=folder,
        workers=options.workers,
        threads=options.threads,
    )
    status = sweep.train_jobs(jobs, record)
    if status:
        return status
    _check_members(members)
    names = [member.name for member in members]
    save_ensemble(folder, names)
    others = [path.name for path in runs_in(folder) if path.name not in names]
    if others:
        verb = "is no member" if len(others) == 1 else "are no members"
        say(
            f"{folder} also has {', '.join(others)}, which {verb}, as --members is "
            f"{options.members}: repeat the command with more members to add runs"
        )
    name = shlex.quote(argument_of(folder))
    say(f"ensemble of {options.members}: regard evaluate {name}    regard translate {name}")
    return 0


def _check_members(members: Sequence[Path]) -> None:
    """Raise a UserError if these runs cannot be loaded as one ensemble."""
    from regard.tasks.translation.model import TranslationModel

    try:
        TranslationModel.load(*members)
    except UserError as error:
        run = members[0] if len(members) == 1 else "the folder of the run at fault"
        raise UserError(
            f"{error}. Or delete {run} and repeat the command, which trains this run again"
        ) from error
