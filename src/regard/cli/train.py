"""`regard train`: a recipe, or just a file of pairs."""

from __future__ import annotations

import contextlib
import errno
import shlex
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro

from regard import recipes
from regard.cli.options import check, one_line
from regard.cli.output import say, warn
from regard.cli.progress import PreparationView, TrainingView
from regard.config import TASKS, DataConfig, Experiment
from regard.config.unused import unused_fields
from regard.errors import UsageError, UserError
from regard.files import check_input, check_name, shortened
from regard.interruption import INTERRUPTED, TERMINATED
from regard.runs.folder import RunFolder

if TYPE_CHECKING:
    from regard.pipeline.train import Plan


@dataclass(frozen=True)
class Options:
    """Train a recipe (`regard recipes` lists them) or a file of pairs; every field of a recipe can
    be set here. The recipe or file comes first. Ctrl-C stops safely; --resume goes on."""

    recipe: tyro.conf.Positional[str]
    """A recipe's name, a recipe's file, or a file of pairs."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder to write the run to (default: runs/NAME)."""
    resume: bool = False
    """Go on with the run in the folder, as if it had never stopped."""
    experiment: Annotated[Experiment, tyro.conf.arg(name="")] = field(default_factory=Experiment)


PROG = "regard train"
PARSER: type[Options] = tyro.conf.AvoidSubcommands[Options]


def run(arguments: list[str]) -> int:
    """Train, with progress; 130 after Ctrl-C, 143 after SIGTERM."""
    options = parse(arguments)
    from regard.pipeline.train import train

    folder = folder_of(options)
    with watching(_inherited(options)) as (begin, watch):
        end = train(
            options.experiment, folder, resume=options.resume, begin=begin, on_progress=watch
        )
    if end.score == 0 and options.experiment.training.metric == "bleu":
        warn(
            "BLEU was 0 at every validation, so that the dev loss alone chose the weights. It is 0 "
            "without four words in a row that are right: where targets are short, take "
            "--training.metric chrf or exact_match"
        )
    if end.interrupted:
        again = shlex.join(["regard", "train", options.recipe, "-o", str(folder), "--resume"])
        say(f"saved; go on with: {again}")
        _draw_curve(folder)
        return TERMINATED if end.reason == "terminated" else INTERRUPTED
    run = shlex.quote(str(folder))
    verb = options.experiment.data.task
    examples = {"caption": ("PICTURE", "PICTURE -o looked.png")}
    one, drawn = examples.get(verb, ("", '"some text"'))
    say(f"try it: {f'regard {verb} {run} {one}'.rstrip()}    regard plot {run} {drawn}")
    _draw_curve(folder)
    return 0


def parse(arguments: list[str]) -> Options:
    """The options, with the fields that the recipe (or the run to go on with) sets as their
    defaults."""
    if "--output=" in arguments or {("--output", ""), ("-o", "")} & {*pairwise(arguments)}:
        raise UsageError("--output is empty: expected a folder (default: runs/NAME)")
    if not arguments:
        raise UsageError(
            "name a recipe (`regard recipes` lists them) or a file of pairs, as in `regard train "
            "pairs.tsv`"
        )
    if {"-h", "--help"} & set(arguments[:1]):
        return tyro.cli(PARSER, args=arguments, prog=PROG)
    if arguments[0].startswith("-"):
        # The recipe gives the defaults of all the options, so that it has to be known first.
        raise UsageError(
            f"{shortened(arguments[0])} came before the recipe: name the recipe or file of pairs "
            "first, as in `regard train RECIPE --training.epochs 5`"
        )
    experiment = _on_file(_of_sections(_experiment(arguments[0]), arguments), arguments)
    default = Options(recipe=arguments[0], experiment=experiment)
    options = _cli(arguments, default)
    if not options.resume:
        return options
    default = replace(default, experiment=_resumed(options, default.experiment))
    return _cli(arguments, default)


def _cli(arguments: list[str], default: Options) -> Options:
    """The flags of the model are those of the default's family."""
    check(Options, arguments, default)
    with one_line(PROG):
        return tyro.cli(PARSER, args=arguments, prog=PROG, default=default)


def _of_sections(experiment: Experiment, arguments: list[str]) -> Experiment:
    """The experiment with the usual values of the task and the family that are named, which have
    to be known before the other fields can be parsed."""
    flags = _named(arguments, "--data.task", "--model.family")
    named = {flag[2:]: value for flag, value in flags.items()}
    now = {"data.task": experiment.data.task, "model.family": experiment.model.family}
    changed = {name: value for name, value in named.items() if now[name] != value}
    if not changed:
        return experiment
    usual = recipes.default(changed, "")
    if usual.data.task == experiment.data.task:
        return replace(experiment, model=usual.model)
    data = replace(usual.data, path=experiment.data.path)
    return replace(experiment, data=data, model=usual.model)


def _on_file(experiment: Experiment, arguments: list[str]) -> Experiment:
    """The experiment without the recipe's generated data if the arguments name a file instead."""
    named = _named(arguments, "--data.path", "--data.generated")
    path, generated = named.get("--data.path", "None"), experiment.data.generated
    if path == "None" or generated is None or "--data.generated" in named:
        return experiment
    if not {"-h", "--help"} & set(arguments):
        say(f"data.path {path} takes the place of the recipe's generated data ({generated})")
    usual = TASKS[experiment.data.task]().generated_size
    return replace(experiment, data=replace(experiment.data, generated=None, generated_size=usual))


def _named(arguments: list[str], *flags: str) -> dict[str, str]:
    """The words after these flags."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    named = ((flag, after) for flag, after in pairwise(words) if flag in flags)
    return {flag: after for flag, after in named if not after.startswith("--")}


def _resumed(options: Options, named: Experiment) -> Experiment:
    """The experiment of the run to go on with, on the files that were named now: where they lie
    may have changed, and whether they hold the same is for training to say.

    UserError where the run is of another recipe."""
    folder = folder_of(options)
    run = RunFolder(folder).experiment()
    other = named.about != run.about or not named.about
    if not _is_pairs(options.recipe) and options.experiment.name != run.name and other:
        raise UserError(
            f"{folder} is a run of {run.name}, not of {options.recipe}: name that, or another "
            "folder with -o"
        )
    if named.data.path is not None and run.data.generated is not None:
        raise UserError(
            f"{folder} was trained on generated data ({run.data.generated}), not on "
            f"{named.data.path}: name its recipe, or another folder with -o"
        )
    return replace(
        run, data=_with_paths(run.data, named.data), model=_with_paths(run.model, named.model)
    )


def _with_paths(record: Any, other: Any) -> Any:
    """The record with every path that the other one has."""
    paths = {field.name: getattr(other, field.name, None) for field in fields(record)}
    return replace(record, **{n: path for n, path in paths.items() if isinstance(path, Path)})


def folder_of(options: Options) -> Path:
    """The run folder that was named, or else the one of the experiment's name."""
    return options.output or Path("runs") / options.experiment.name


def _experiment(name: str) -> Experiment:
    """The recipe of this name, or the default one on a file of pairs."""
    path = Path(name)
    if _is_pairs(name):
        stem = path.name.lstrip(".").split(".")[0]
        return Experiment(name=stem or Experiment.name, data=DataConfig(path=path))
    if name in recipes.names():
        return recipes.load(recipes.find(name))
    if _exists(path) and path.is_dir():
        raise UserError(
            f"{shortened(path)} is a directory: expected a recipe or a file. A folder of labelled "
            "texts is data.path of a recipe, as in `regard train trec --data.path FOLDER`"
        )
    if path.suffix in (".tsv", ".txt", ".gz"):
        raise UserError(f"{shortened(path)} does not exist: a file of pairs was expected")
    return recipes.load(recipes.find(name))


def _is_pairs(name: str) -> bool:
    """Whether pairs are read from this name. UserError for a named pipe or a device."""
    path = check_name(name)
    if path.suffix in (".yaml", ".yml") or not _exists(path) or path.is_dir():
        return False
    check_input(path)
    return True


def _exists(path: Path) -> bool:
    """Whether the path exists. A name that is too long for a file does not."""
    try:
        return path.exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


class Watching(NamedTuple):
    """What training begins with, and who watches before."""

    begin: Callable[[Plan], TrainingView]
    watch: PreparationView


def _inherited(options: Options) -> frozenset[str]:
    """Unused fields with the value of the recipe, where the recipe alone makes use of them: nobody
    set them on the command line."""
    recipe, experiment = _experiment(options.recipe), options.experiment
    own = {unused.name for unused in unused_fields(recipe)}
    names = {unused.name for unused in unused_fields(experiment)} - own
    return frozenset(name for name in names if attrgetter(name)(experiment) == _value(recipe, name))


def _value(recipe: Experiment, name: str) -> object:
    try:
        return attrgetter(name)(recipe)
    except AttributeError:  # a field of another family or task
        return None


@contextlib.contextmanager
def watching(inherited: Container[str] = ()) -> Iterator[Watching]:
    """Gives who watches a training; all of them stop when the block ends, however it does. Unused
    fields are reported unless `inherited` has them."""
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(PreparationView())

        def begin(plan: Plan) -> TrainingView:
            watch.stop()
            return stack.enter_context(_announce(plan, inherited))

        yield Watching(begin, watch)


def _announce(plan: Plan, inherited: Container[str]) -> TrainingView:
    """Say what is about to be trained, and give who watches."""
    for line in plan.left_out:
        say(line)
    for idle in plan.unused:
        if idle.name not in inherited:
            say(str(idle))
    if plan.cache_file is not None:
        size = plan.cache_file.stat().st_size / 1e6
        say(
            f"kept the encoded pairs in {plan.cache_file} ({size:,.0f} MB) for the next run; it "
            "can be removed at any time"
        )
    if plan.initialisation is not None:
        say(str(plan.initialisation))
    if plan.num_frozen_new:
        say(
            f"training.freeze keeps {plan.num_frozen_new:,} parameters at new weights, into which "
            "nothing was learned: --init-from RUN would take a run's"
        )
    frozen = f" ({plan.num_frozen:,} frozen)" if plan.num_frozen else ""
    say(
        f"{plan.num_pairs:,} pairs, {plan.num_dev:,} for the dev score; {plan.vocabularies}; "
        f"{plan.num_parameters:,} parameters{frozen}; "
        f"{plan.precision} on {plan.device}; run {plan.folder.path}"
    )
    return TrainingView(lines=plan.num_dev == 0)


def _draw_curve(folder: Path) -> None:
    """Unless there is nothing to draw yet, as where an interruption came before the first line."""
    from regard.viewing import curve

    run_folder = RunFolder(folder)
    if any(record["kind"] in ("train", "dev") for record in curve.read_log(run_folder.log)):
        curve.save(run_folder.log, run_folder.curve)
