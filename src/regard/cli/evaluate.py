"""`regard evaluate`: scores with signatures, and examples to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.cli import show
from regard.cli.options import Device, Runs
from regard.cli.progress import PreparationView
from regard.cli.searching import SearchFields, parse
from regard.config import SearchConfig
from regard.config.checks import CountOrZero
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.examples import Corpus, Pair
    from regard.pipeline.evaluate import Evaluation
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.classification.classifier import Classifier
    from regard.tasks.translation.translator import Translator

    Model = Translator | Classifier | Captioner

OF_TRANSLATION = ("target_path", "lowercase", "tokenized", "error_rates")
OF_LABELS = ("text_column", "label_column")


@dataclass(frozen=True)
class Options:
    """Translate, classify or caption the sources of some data and compare with what is right.

    A source that occurs more than once is translated, or captioned, once and may be right in any of
    its ways."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    data: tyro.conf.Positional[Path | None] = None
    """Pairs, labelled texts or captioned pictures, as the run was trained on; without them those
    that it held out for its test."""
    target_path: Path | None = None
    """The target side, where the pairs of a translation are in two files."""
    text_column: str | None = None
    """The column of texts in a table of labels, where it is not called as in training."""
    label_column: tuple[str, ...] | None = None
    """The column of labels in it, or several of numbers."""
    first: int | None = None
    """Only the first so many."""
    search: SearchFields = field(default_factory=SearchConfig)
    ensemble: Runs = ()
    """Runs that translate together with this one: the mean of their probabilities is searched."""
    examples: CountOrZero = 0
    """Print so many examples."""
    lowercase: bool = False
    """Print the scores of translations without regard to case too."""
    tokenized: bool = False
    """Print BLEU of translations on cut text too: on words between spaces, where the run was
    trained on text that is cut already, else as sacrebleu's 13a cuts it. Older papers report it
    with --lowercase."""
    error_rates: bool = False
    """Print word and character error rate of translations too: edits for 100 words, or
    characters."""
    device: Device = "auto"


@dataclass(frozen=True)
class Words:
    """How an evaluation is told: what there was, and what stands before a source, before what was
    written for it and before a score's digits."""

    counts: str
    source: str
    text: str
    digits: str = "6.2f"


TRANSLATED = Words("{sources} sources, {pairs} pairs", "Source:", "Predicted:")
ANSWERED = Words("{pairs} examples", "Source:", "Answered:", "8.4g")
CAPTIONED = Words("{sources} pictures, {pairs} captions", "Picture:", "Caption:")


def run(arguments: list[str]) -> None:
    """Score a run and keep the scores and the raw output in its results.json."""
    options = parse(Options, arguments, "regard evaluate")
    if options.first is not None and options.first < 1:
        raise UserError(f"--first is {options.first}: expected 1 or more")
    from regard.pipeline.evaluate import kept, save
    from regard.pipeline.load import load
    from regard.runs.folder import RunFolder
    from regard.tasks.classification.classifier import Classifier
    from regard.tasks.translation.translator import Translator

    model = load(options.run, *options.ensemble, device=options.device)
    folder = RunFolder(options.run)
    _check_flags(model, options)
    path = options.data or folder.test
    if options.data is None and not path.exists():
        raise UserError(
            f"{options.run} held out nothing for its test: name some data, as `regard evaluate "
            f"{options.run} DATA`"
        )
    kept(folder)  # what cannot be added to is said now, not after all the work
    held_out = path == folder.test  # regard wrote it: pairs, whatever the run's data are
    if isinstance(model, Translator):
        found, words = _translate(model, path, options), TRANSLATED
    elif isinstance(model, Classifier):
        found, words = _answer(model, path, options, held_out=held_out), ANSWERED
    else:
        found, words = _caption(model, path, options, held_out=held_out), CAPTIONED
    try:
        save(folder, found, data=path)
    finally:  # a folder that cannot be written to costs no scores
        print(f"{words.counts.format(sources=len(found.outputs), pairs=found.num_pairs)}, {path}")
        _report(found, words, getattr(model, "labels", ()), options.examples)


def _report(evaluation: Evaluation, words: Words, labels: Sequence[str], num_examples: int) -> None:
    """Print scores and examples."""
    for line in evaluation.left_out:
        print(line)
    width = max(12, *(len(score.name) for score in evaluation.scores))
    for score in evaluation.scores:
        print(f"{score.name:{width}} {score.value:{words.digits}}  {score.signature}")
    if labels:
        show.confusion(evaluation.confusion(labels))
    for output in evaluation.outputs[:num_examples]:
        print(f"\n{words.source:10} {output.source}\n{words.text:10} {output.text}")
        print("\n".join(f"Actual:    {reference}" for reference in output.references))


def _check_flags(model: Model, options: Options) -> None:
    """UserError for a flag that says nothing of this kind of run."""
    from regard.tasks.classification.classifier import Classifier
    from regard.tasks.translation.translator import Translator

    others: tuple[str, ...] = () if isinstance(model, Classifier) else OF_LABELS
    if isinstance(model, Translator):
        if options.target_path is not None and options.data is None:
            raise UserError("--target-path is one side of pairs: name the file of the other too")
    else:
        others += OF_TRANSLATION
    vain = [name for name in others if getattr(options, name)]
    if isinstance(model, Classifier):
        names = (each.name for each in fields(SearchConfig))
        own = model.experiment.search
        vain += [name for name in names if getattr(options.search, name) != getattr(own, name)]
    if vain:
        raise UserError(
            f"--{vain[0].replace('_', '-')} says nothing of {options.run}, which was trained to "
            f"{model.data.task}: leave it out"
        )


def _translate(translator: Translator, path: Path, options: Options) -> Evaluation:
    from regard.data.text.parallel import read_pairs
    from regard.pipeline.evaluate import HowTranslated, evaluate

    pairs = _said(read_pairs(path, target_path=options.target_path), options)
    together = tuple(str(each.resolve()) for each in options.ensemble)
    how = HowTranslated(options.search, options.lowercase, options.tokenized, together)
    with PreparationView() as watch:
        return evaluate(translator, pairs, how, error_rates=options.error_rates, on_progress=watch)


def _answer(classifier: Classifier, path: Path, options: Options, *, held_out: bool) -> Evaluation:
    from regard.data.labels.readers import Columns, read_labelled
    from regard.data.text.parallel import read_pairs
    from regard.pipeline.evaluate import evaluate_answers

    columns = Columns(
        options.text_column or classifier.data.text_column,
        options.label_column or classifier.data.label_column,
    )
    known = frozenset(classifier.labels) or None
    pairs = _said(read_pairs(path) if held_out else read_labelled(path, columns, known), options)
    with PreparationView() as watch:
        return evaluate_answers(classifier, pairs, on_progress=watch)


def _caption(captioner: Captioner, path: Path, options: Options, *, held_out: bool) -> Evaluation:
    from regard.data.images.annotations import read_captions
    from regard.data.text.parallel import read_pairs
    from regard.pipeline.evaluate import evaluate_captions
    from regard.tasks.captioning.scene_scores import SceneScores

    data = captioner.data
    corpus = read_pairs(path) if held_out else read_captions(path, data.pictures).to_score
    pairs = _said(corpus, options)
    scenes = SceneScores() if held_out and data.generated else None
    with PreparationView() as watch:
        return evaluate_captions(captioner, pairs, options.search, scenes=scenes, on_progress=watch)


def _said(corpus: Corpus, options: Options) -> Sequence[Pair]:
    """Those that are wanted, once it is said what was left out."""
    for line in corpus.summary():
        print(line)
    return corpus.pairs[: options.first]
