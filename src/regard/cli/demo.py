"""`regard demo`: train, score, translate and look, in two minutes."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import tyro

from regard import recipes
from regard.cli import show
from regard.cli.train import announce, resuming

EXAMPLES = (
    "four hundred twenty-three",
    "seven thousand six hundred fifty-four",
    "ninety-eight thousand seven hundred sixty-five",
)


@dataclass(frozen=True)
class Options:
    """Learn to write numbers as German words (units and tens change places, so the attention has
    to cross), score on numbers never seen, and show what each letter looked at."""

    run: Path = Path("runs/demo")
    """The run folder; an earlier demo in it is replaced."""


def run(arguments: list[str]) -> int:
    """From nothing to pictures; 130 where it was interrupted."""
    options = tyro.cli(Options, args=arguments, prog="regard demo")
    from regard.data.text import read_pairs
    from regard.pipeline.evaluation import evaluate, save
    from regard.pipeline.folder import RunFolder
    from regard.pipeline.training import train
    from regard.pipeline.translator import Translator

    folder = RunFolder(options.run)
    if folder.config.exists():
        shutil.rmtree(options.run)
    experiment = recipes.load(recipes.find("numbers"))
    print(experiment.about)
    end = train(experiment, options.run, begin=announce)
    if end.interrupted:
        print(f"saved; go on with: {resuming('numbers', options.run)}")
        return 130

    translator = Translator.load(options.run)
    evaluation = evaluate(translator, read_pairs(folder.test).pairs, experiment.search)
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
        for name in ("attention.png", "attention.json"):
            show.save_picture(shown.trace, options.run / name)
            print(options.run / name)
    run_path = shlex.quote(str(options.run))
    print(f'\nGo on:  .venv/bin/regard plot {run_path} "sixty-one" -o sixty-one.png')
    return 0
