"""`regard evaluate`: scores with signatures, and examples to look at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.cli import show
from regard.cli.searching import SearchFields, parse
from regard.config import SearchConfig
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.pipeline.captioner import Captioner
    from regard.pipeline.classifier import Classifier
    from regard.pipeline.folder import RunFolder
    from regard.pipeline.translator import Translator


@dataclass(frozen=True)
class Options:
    """Translate the sources of some pairs freely and compare with their targets.

    Sources that occur more than once are translated once and may be right in any of their ways."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    data: tyro.conf.Positional[Path | None] = None
    """Pairs; without them those that the run held out for its test."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    first: int | None = None
    """Only the first so many pairs."""
    search: SearchFields = field(default_factory=SearchConfig)
    ensemble: tuple[Path, ...] = ()
    """Runs that write together with this one: the mean of their probabilities is searched."""
    examples: int = 0
    """Print so many examples."""
    lowercase: bool = False
    """Print the scores without regard to case too."""
    tokenized: bool = False
    """Print BLEU on cut text too: on words between spaces, where the run was trained on text that
    is cut already, else as sacrebleu's 13a cuts it. Older papers report it with --lowercase."""
    error_rates: bool = False
    """Print word and character error rate too: edits for 100 words, or characters."""


def run(arguments: list[str]) -> None:
    """Score a run and keep the scores and the raw output in its results.json."""
    options = parse(Options, arguments, "regard evaluate")
    if options.first is not None and options.first < 1:
        raise UserError(f"--first is {options.first}: expected 1 or more")
    from regard.pipeline.classifier import Classifier
    from regard.pipeline.evaluation import kept
    from regard.pipeline.folder import RunFolder
    from regard.pipeline.loading import load
    from regard.pipeline.translator import Translator

    model, folder = load(options.run, *options.ensemble), RunFolder(options.run)
    path = options.data or folder.test
    if options.data is None and not path.exists():
        raise UserError(
            f"{options.run} held out no pairs for its test: name some, as `regard evaluate "
            f"{options.run} PAIRS`"
        )
    kept(folder)  # what cannot be added to is said now, not after all the work
    if isinstance(model, Translator):
        _translate(model, folder, path, options)
    elif isinstance(model, Classifier):
        _answer(model, folder, path, options)
    else:
        _caption(model, folder, path, options)


def _translate(translator: Translator, folder: RunFolder, path: Path, options: Options) -> None:
    from regard.cli.progress import counting
    from regard.data.text import read_pairs
    from regard.pipeline.evaluation import evaluate, save

    corpus = read_pairs(path, target_path=options.target_path)
    for line in corpus.summary():
        print(line)
    with counting("translating") as progress:
        evaluation = evaluate(
            translator,
            corpus.pairs[: options.first],
            options.search,
            lowercase=options.lowercase,
            tokenized=options.tokenized,
            error_rates=options.error_rates,
            progress=progress,
        )
    together = tuple(str(each.resolve()) for each in options.ensemble)
    save(folder, replace(evaluation, ensemble=together), data=path)
    print(f"{len(evaluation.outputs)} sources, {evaluation.num_pairs} pairs, {path}")
    for score in evaluation.scores:
        print(f"{score.name:12} {score.value:6.2f}  {score.signature}")
    for output in evaluation.outputs[: options.examples]:
        print(f"\nSource:    {output.source}\nPredicted: {output.text}")
        print("\n".join(f"Actual:    {reference}" for reference in output.references))


def _answer(classifier: Classifier, folder: RunFolder, path: Path, options: Options) -> None:
    from regard.cli.progress import counting
    from regard.data.answers import Labels
    from regard.data.labelled import Columns, read_labelled
    from regard.data.text import read_pairs
    from regard.pipeline.evaluation import evaluate_answers, save

    data = classifier.data
    columns = Columns(data.text_column, data.label_column)
    own = path == folder.test  # regard wrote it, without names above
    corpus = read_pairs(path) if own else read_labelled(path, columns)
    for line in corpus.summary():
        print(line)
    with counting("answering") as progress:
        found = evaluate_answers(classifier, corpus.pairs[: options.first], progress=progress)
    save(folder, found, data=path)
    print(f"{found.num_pairs} examples, {path}")
    for score in found.scores:
        print(f"{score.name:12} {score.value:8.4g}  {score.signature}")
    answers = classifier.reading.answers
    if isinstance(answers, Labels):
        show.confusion(found.confusion(answers.names))
    for output in found.outputs[: options.examples]:
        print(f"\nSource:    {output.source}\nAnswered:  {output.text}")
        print(f"Actual:    {output.references[0]}")


def _caption(captioner: Captioner, folder: RunFolder, path: Path, options: Options) -> None:
    from regard.cli.progress import counting
    from regard.data.captions import read_captions
    from regard.data.text import read_pairs
    from regard.pipeline.evaluation import evaluate_captions, save

    data = captioner.data
    own = path == folder.test  # regard wrote it: names of pictures, or scenes, and captions
    corpus = read_pairs(path) if own else read_captions(path, data.pictures).to_score
    for line in corpus.summary():
        print(line)
    with counting("captioning") as progress:
        found = evaluate_captions(
            captioner, corpus.pairs[: options.first], options.search, progress=progress
        )
    save(folder, found, data=path)
    print(f"{len(found.outputs)} pictures, {found.num_pairs} captions, {path}")
    for line in found.left_out:
        print(line)
    for score in found.scores:
        print(f"{score.name:12} {score.value:6.2f}  {score.signature}")
    for output in found.outputs[: options.examples]:
        print(f"\nPicture:   {output.source}\nCaption:   {output.text}")
        print("\n".join(f"Actual:    {reference}" for reference in output.references))
