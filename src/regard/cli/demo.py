"""`regard demo`: train, score, translate and look, in two minutes."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from regard import recipes
from regard.cli import show
from regard.cli.options import parse
from regard.cli.output import say
from regard.cli.train import watching
from regard.config import Experiment
from regard.errors import UserError
from regard.interruption import INTERRUPTED, TERMINATED
from regard.runs.folder import RunFolder

EXAMPLES = (
    "four hundred twenty-three",
    "seven thousand six hundred fifty-four",
    "ninety-eight thousand seven hundred sixty-five",
)


@dataclass(frozen=True)
class Options:
    """Learn to write numbers as German words (units and tens change places, so the attention has
    to cross), score on numbers never seen, and show what each letter looked at."""

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("runs/demo")
    """Folder to write the run to. An earlier demo there is replaced; an interrupted one is
    resumed."""


def run(arguments: list[str]) -> int:
    """From nothing to pictures; 130 after Ctrl-C, 143 after SIGTERM."""
    options = parse(Options, arguments, "regard demo")
    from regard.data.text.parallel import read_pairs
    from regard.pipeline.evaluate import HowTranslated, evaluate, save
    from regard.pipeline.train import train
    from regard.tasks.translation.translator import Translator

    folder = RunFolder(options.output)
    experiment = recipes.load(recipes.find("numbers"))
    resume = _clear(folder, experiment)
    say(experiment.about)
    with watching() as (begin, watch):
        end = train(experiment, options.output, resume=resume, begin=begin, on_progress=watch)
    if end.interrupted:
        say(f"saved; go on with: {shlex.join(['regard', 'demo', '-o', str(options.output)])}")
        return TERMINATED if end.reason == "terminated" else INTERRUPTED

    translator = Translator.load(options.output)
    how = HowTranslated(experiment.search)
    evaluation = evaluate(translator, read_pairs(folder.test).pairs, how)
    save(folder, evaluation, folder.test)
    scores = {score.name: score.value for score in evaluation.scores}
    print(f"\n{evaluation.num_pairs} numbers never seen: {scores['exact match']:.1f} % right\n")
    unseen = [output.source for output in evaluation.outputs[:3]]
    for translation in translator.translate([*EXAMPLES, *unseen], attention=False):
        print(f"  {translation.source}  ->  {translation.text}")

    print()
    shown = translator.translate(EXAMPLES[0])
    if shown.trace is not None:
        show.attention_map(shown.trace)
        drawn, numbers = _pictures(folder)
        show.save_picture(shown.trace, drawn)
        shown.trace.save(numbers)
        print(f"{drawn}\n{numbers}")
    place = shlex.quote(str(options.output))
    print(f'\nGo on:  {_command()} plot {place} "sixty-one" -o sixty-one.png')
    return 0


def _command() -> str:
    """Return how to start `regard` again: its name if the shell finds it, else its path."""
    script = Path(sys.argv[0])
    if script.name != "regard":
        return "regard"
    on_path = shutil.which("regard")
    if on_path is not None and Path(on_path).absolute() == script.absolute():
        return "regard"
    return shlex.quote(str(script))


def _pictures(folder: RunFolder) -> tuple[Path, ...]:
    return folder.path / "attention.png", folder.path / "attention.json"


def _clear(folder: RunFolder, experiment: Experiment) -> bool:
    """Remove what an earlier demo wrote and nothing else; UserError where it was no demo. True, and
    nothing is removed, where it came to no results and can be resumed."""
    found = [path for path in (*folder.files, *_pictures(folder)) if path.exists()]
    if not found and not folder.state.exists():
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise UserError(
                f"{folder.path} is no folder of a demo: name an empty or a new folder with -o"
            )
        return False
    if not folder.config.is_file() or not _is_same(folder.experiment(), experiment):
        names = ", ".join(path.name for path in found) or folder.state.name
        raise UserError(
            f"{folder.path} holds {names}, and not from a demo: name another folder with -o"
        )
    if any(folder.state.glob("*.safetensors")) and not folder.results.exists():
        return True
    for path in (*found, *folder.state.glob("*.safetensors")):
        path.unlink()
    with suppress(OSError):  # not there, or not empty: then training says so
        folder.state.rmdir()
    return False


def _is_same(was: Experiment, now: Experiment) -> bool:
    """But for the ratio of lengths, which training adds."""
    return replace(was, search=replace(was.search, max_ratio=now.search.max_ratio)) == now
