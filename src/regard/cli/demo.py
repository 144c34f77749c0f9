"""`regard demo`: train, evaluate, translate and draw attention, in a minute."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from regard import recipes
from regard.cli.analysis import show
from regard.cli.output import say
from regard.cli.parsing.options import parse
from regard.cli.training.train import training_views
from regard.config import Experiment, resolve
from regard.errors import UserError
from regard.runs.folder import RunFolder
from regard.runtime.signals import INTERRUPTED, TERMINATED

EXAMPLES = (
    "four hundred twenty-three",
    "seven thousand six hundred fifty-four",
    "ninety-eight thousand seven hundred sixty-five",
)


@dataclass(frozen=True)
class Options:
    """Train a model that translates English number words to German ones (units and tens change
    places, so the attention has to cross), evaluate it on unseen numbers, and draw the attention of
    each letter."""

    output: Path = Path("runs/demo")
    """Folder to write the run to. An earlier demo there is replaced; an interrupted one is
    resumed."""


def run(arguments: list[str]) -> int:
    """Run the demo; return 130 after Ctrl-C, 143 after SIGTERM."""
    options = parse(Options, arguments, "regard demo")
    from regard.data.text.parallel import read_pairs
    from regard.pipeline.evaluate import evaluate, save
    from regard.pipeline.train import train
    from regard.tasks.translation.model import TranslationModel

    folder = RunFolder(options.output)
    experiment = resolve(recipes.load(recipes.find("numbers")))
    resume = _clear(folder, experiment)
    say(experiment.about)
    with training_views() as views:
        end = train(
            experiment,
            options.output,
            resume=resume,
            begin=views.start_training,
            on_progress=views.preparation,
        )
    if end.interrupted:
        say(f"saved; resume with: {_command()} demo -o {shlex.quote(str(options.output))}")
        return TERMINATED if end.reason == "terminated" else INTERRUPTED

    translator = TranslationModel.load(options.output)
    evaluation = evaluate(translator, read_pairs(folder.test).pairs)
    save(folder, evaluation, folder.test)
    scores = {score.name: score.value for score in evaluation.scores}
    print(f"\n{evaluation.num_pairs} unseen numbers: {scores['exact match']:.1f} % correct\n")
    unseen = [output.source for output in evaluation.outputs[:3]]
    for translation in translator.translate([*EXAMPLES, *unseen], attention=False):
        print(f"  {translation.source}  ->  {translation.text}")

    print()
    trace = translator.translate(EXAMPLES[0]).trace
    if trace is not None:
        show.attention_map(trace)
        figure, numbers = _attention_files(folder)
        show.save_figure(trace, figure)
        trace.save(numbers)
        print(f"{figure}\n{numbers}")
    place = shlex.quote(str(options.output))
    print(f'\nNext:  {_command()} plot {place} "sixty-one" -o sixty-one.png')
    return 0


def _command() -> str:
    """Return the command `regard`: its name if the shell finds it, otherwise its path."""
    script = Path(sys.argv[0])
    if script.name != "regard":
        return "regard"
    on_path = shutil.which("regard")
    if on_path is not None and Path(on_path).absolute() == script.absolute():
        return "regard"
    return shlex.quote(str(script))


def _attention_files(folder: RunFolder) -> tuple[Path, ...]:
    return folder.path / "attention.png", folder.path / "attention.json"


def _clear(folder: RunFolder, experiment: Experiment) -> bool:
    """Remove the files of an earlier demo and no others. If that demo has no results and can be
    resumed, remove nothing and return True. UserError for a folder of another run."""
    files = [path for path in (*folder.files, *_attention_files(folder)) if path.exists()]
    if not files and not folder.state.exists():
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise UserError(
                f"{folder.path} is not a demo's folder: name an empty or a new folder with -o"
            )
        return False
    if not folder.config.is_file() or not _is_same(folder.experiment(), experiment):
        names = ", ".join(path.name for path in files) or folder.state.name
        raise UserError(f"{folder.path} has {names} of another run: name another folder with -o")
    if any(folder.state.glob("*.safetensors")) and not folder.results.exists():
        return True
    for path in (*files, *folder.state.glob("*.safetensors")):
        path.unlink()
    with suppress(OSError):  # missing, or not empty: training reports that
        folder.state.rmdir()
    return False


def _is_same(old: Experiment, new: Experiment) -> bool:
    """Return whether recipes are equal, apart from the ratio of lengths, which training adds."""
    return replace(old, search=replace(old.search, max_ratio=new.search.max_ratio)) == new
