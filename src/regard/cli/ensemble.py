"""`regard ensemble`: train the members of an ensemble."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.cli import sweep, train
from regard.cli.output import say
from regard.errors import UsageError, UserError

HELP = """\
usage: regard ensemble RECIPE [FILE] [OPTIONS]

Train a recipe once for each member of an ensemble, with different seeds and side by side. The
folder of the ensemble takes the place of a run in translate, evaluate, score, plot and regard.load.
Repeat the command to continue an interrupted training, or with more members to extend the ensemble.

examples:
  regard ensemble letters pairs.tsv
  regard ensemble g2p pairs.tsv --members 3 -o ensembles/greek

options:
  --members NUMBER      Number of members, with the seeds training.seed, training.seed + 1, ... [5]
  -o, --output FOLDER   Folder of the ensemble. [ensembles/NAME]
  --workers NUMBER      Number of trainings at a time. [number of cores / threads]
  --threads NUMBER      Number of threads of each training. [1]
  -h, --help            Show this help.

All other options are those of `regard train`, for all members.
"""
EXAMPLE = "regard ensemble letters pairs.tsv --members 5"
MEMBERS = "--members"
NUM_MEMBERS = 5
MAX_MEMBERS = 100


def run(arguments: list[str]) -> int:
    """Train all members and write the folder of the ensemble; return 1 if a training failed."""
    if {"-h", "--help"} & {*arguments} or not arguments:
        print(HELP)
        raise SystemExit(0 if arguments else UsageError.STATUS)
    number, rest = _num_members(arguments)
    options = sweep.parse(rest, "ensemble", EXAMPLE)
    if options.vary or options.address or options.gpus:
        raise UsageError(
            "--vary, --address and --gpus are for `regard sweep`: the members of an ensemble "
            "differ in their seeds only, and are trained on the CPUs of this machine"
        )
    messages: list[str] = []
    experiment = train.parse(list(options.arguments), messages.append).experiment
    if experiment.data.task != "translate":
        raise UserError(
            f"data.task is {experiment.data.task}: expected translate, as only models that "
            "translate can be an ensemble; `regard sweep` trains others with several seeds"
        )
    first = experiment.training.seed
    seeds = f"training.seed={first}..{first + number - 1}"
    options = replace(options, vary=(seeds,))
    from regard.runs.ensemble import runs_in, save_ensemble
    from regard.runs.folder import RunFolder
    from regard.studies.sweep import argument_of, is_complete, jobs_of

    members = [job.folder for job in jobs_of(options.vary, options.output)]
    for member in members:
        if is_complete(RunFolder(member)):
            _check_members([member])
    status = sweep.train_jobs(options)
    if status:
        return status
    _check_members(members)
    names = [member.name for member in members]
    save_ensemble(options.output, names)
    others = [path.name for path in runs_in(options.output) if path.name not in names]
    if others:
        verb = "is no member" if len(others) == 1 else "are no members"
        say(
            f"{options.output} also has {', '.join(others)}, which {verb}, as {MEMBERS} is "
            f"{number}: repeat the command with more members to add runs"
        )
    folder = shlex.quote(argument_of(options.output))
    say(f"ensemble of {number}: regard evaluate {folder}    regard translate {folder}")
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


def _num_members(arguments: list[str]) -> tuple[int, list[str]]:
    """Return the number of members and the other arguments. UsageError for any other value than a
    whole number from 2."""
    number, rest = str(NUM_MEMBERS), []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag == MEMBERS:
            number = value if equals else next(words, "")
        else:
            rest.append(word)
    if not number.isdecimal() or not 2 <= int(number) <= MAX_MEMBERS:
        raise UsageError(
            f"{MEMBERS} is {number!r}: expected a whole number from 2 to {MAX_MEMBERS}"
        )
    return int(number), rest
