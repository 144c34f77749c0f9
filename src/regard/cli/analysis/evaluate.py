"""`regard evaluate`: score a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.analysis import show
from regard.cli.output import say, warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, Runs
from regard.cli.parsing.searching import parse
from regard.cli.progress import PreparationView
from regard.config import SearchConfig
from regard.config.checks import CountOrZero
from regard.errors import UserError, counted
from regard.inference.faults import MOSTLY
from regard.names import FILE_OPTIONS
from regard.runtime.memory_policy import pause_collection

if TYPE_CHECKING:
    from regard.data.examples import Pair
    from regard.pipeline.load import Model
    from regard.tasks.evaluation import Evaluation, EvaluationOptions
    from regard.tasks.task import ReportTexts

REMEDY = (
    "name a second file, of targets, with --target-path; "
    "to compare runs, use `regard compare RUN RUN ...`"
)
MAX_CHECKED = 2_000
"""Number of pairs whose unknown words are counted."""
TASK_OPTIONS = (
    *("target_path", "lowercase", "tokenized", "error_rates"),
    *FILE_OPTIONS,
)
"""Options that apply to some tasks alone."""


HELP_EXAMPLES = (
    ("regard evaluate runs/letters", "scores on the held-out test split"),
    (
        "regard evaluate runs/letters more.tsv --examples 5",
        "other pairs, and five outputs",
    ),
)


@dataclass(frozen=True)
class Options:
    """Score a run on pairs. Scores and outputs are saved in the run's results.json. Search options
    default to the run's recipe.

    A source that occurs more than once is decoded once; all its targets are references."""

    run: Positional[Path]
    """Run folder."""
    data: Positional[Path | None] = None
    """Pairs, labelled texts or captions, in a format that training reads (default: the held-out
    test split of the run)."""
    target_path: Path | None = None
    """File of the targets, if the pairs of a translation are in two files."""
    encoding: str | None = None
    """Encoding of the file, such as cp1253 (default: recognised)."""
    delimiter: str | None = None
    """Character between columns (default: recognised)."""
    header: bool | None = None
    """Whether the first row names the columns (default: recognised)."""
    sheet: str | None = None
    """Sheet of a workbook (default: the first with a table)."""
    source_column: str | None = None
    """Column of the sources, by name or by number from 1 (default: as in training)."""
    target_column: tuple[str, ...] | None = None
    """Column of the targets, by name or by number from 1, or several columns of numbers (default:
    as in training)."""
    first: int | None = None
    """Number of pairs to score, from the first on (default: all)."""
    search: SearchConfig = field(default_factory=SearchConfig)
    ensemble: Runs = ()
    """Further runs of an ensemble: the search takes the mean of the probabilities."""
    examples: CountOrZero = 0
    """Number of examples to print."""
    lowercase: bool = False
    """Add the scores of lower-cased translations."""
    tokenized: bool = False
    """Add BLEU of tokenized translations: tokens between spaces if the run was trained on tokenized
    text, otherwise sacrebleu's 13a. Older papers report it with --lowercase."""
    error_rates: bool = False
    """Add word and character error rate of translations: edits per 100 words or characters."""
    device: Device = "auto"


def run(arguments: list[str]) -> None:
    """Score a run, save the scores and the outputs, and print the scores."""
    options = parse(Options, arguments, "regard evaluate", REMEDY)
    if options.first is not None and options.first < 1:
        raise UserError(f"--first is {options.first}: expected 1 or more")
    with pause_collection():
        from regard.pipeline import evaluate
        from regard.pipeline.load import load
        from regard.runs.folder import RunFolder
        from regard.runs.results import saved_evaluations
        from regard.tasks.all_tasks import task_of

    model = load(options.run, *options.ensemble, device=options.device)
    task, folder = task_of(model.data), RunFolder(options.run)
    _check_options(model, task.evaluation_options, options)
    path = options.data or folder.test
    if options.data is None and not path.exists():
        raise UserError(
            f"{options.run} has no held-out test split: name the data, as in `regard evaluate "
            f"{options.run} DATA`"
        )
    saved_evaluations(folder)  # fails before the work if results.json is damaged
    chosen = _evaluation_options(options, held_out=path == folder.test)
    corpus = evaluate.read(model, path, chosen)
    if options.data is not None and corpus.columns is not None:
        source, targets = corpus.columns.source, " ".join(corpus.columns.targets)
        print(
            f"columns: {source} -> source (--source-column), {targets} -> target (--target-column)"
        )
    for line in corpus.summary():
        say(line)
    pairs = corpus.pairs[: options.first]
    if options.data is not None:
        runs = [options.run, *options.ensemble]
        if sentence := evaluate.describe_training(model, runs, options.data, pairs):
            warn(sentence)
    _warn_of_unknown(model, options.run, pairs[:MAX_CHECKED])
    with PreparationView() as on_progress:
        evaluation = evaluate.evaluate(model, pairs, chosen, on_progress=on_progress)
    try:
        evaluate.save(folder, evaluation, data=path, device=options.device)
    finally:  # print the scores even if the folder is not writable
        texts = task.report_texts
        counts = [counted(evaluation.num_pairs, texts.pair_noun)]
        if texts.source_noun:
            counts.insert(0, counted(len(evaluation.outputs), texts.source_noun))
        details = _details(options, task.evaluation_options)
        print(", ".join([*counts, str(path), *details]))
        labels = getattr(model, "labels", ())
        _report(evaluation, texts, labels, options.examples, tokenized=options.tokenized)


def _details(options: Options, task_options: Sequence[str]) -> list[str]:
    """Return the number of models of an ensemble, and the precision if it is not the default."""
    details = [f"ensemble of {1 + len(options.ensemble)}"] if options.ensemble else []
    precision = options.search.precision
    is_usual = "search" not in task_options or precision == SearchConfig.precision
    return details if is_usual else [*details, precision]


def _warn_of_unknown(model: Model, run: Path, pairs: Sequence[Pair]) -> None:
    """Warn if most source words are unknown to the model, as they are if the sides are swapped."""
    from regard.tasks.captioning.model import CaptionModel

    if isinstance(model, CaptionModel):
        return
    unknown = model.unknown_share([pair.source for pair in pairs])
    if unknown > MOSTLY:
        swapped = model.unknown_share([pair.target for pair in pairs])
        hint = ": are the sides swapped?" if swapped < unknown / 2 else ""
        warn(f"{100 * unknown:.0f} % of the source words are unknown to {run}{hint}")


def _evaluation_options(options: Options, *, held_out: bool) -> EvaluationOptions:
    from regard.tasks.evaluation import EvaluationOptions

    values: dict[str, Any] = {name: getattr(options, name) for name in TASK_OPTIONS}
    ensemble = tuple(str(path.resolve()) for path in options.ensemble)
    return EvaluationOptions(search=options.search, ensemble=ensemble, held_out=held_out, **values)


def _report(
    evaluation: Evaluation,
    texts: ReportTexts,
    labels: Sequence[str],
    num_examples: int,
    *,
    tokenized: bool,
) -> None:
    """Print scores and examples, without BLEU if the references are short and `tokenized` is
    False."""
    from regard.tasks.evaluation import bleu_note, is_informative

    for line in evaluation.left_out:
        say(line)
    num_words = evaluation.num_words
    scores = [s for s in evaluation.scores if tokenized or is_informative(s.name, num_words)]
    width = max(12, *(len(score.name) for score in evaluation.scores))
    for score in scores:
        print(f"{score.name:{width}} {score.value:{texts.score_format}}  {score.signature}")
    if len(scores) < len(evaluation.scores):
        print(bleu_note(num_words, "results.json"))
    for worse in evaluation.slices:
        say(str(worse))
    if labels:
        show.confusion(evaluation.confusion(labels))
    for output in evaluation.outputs[:num_examples]:
        say(f"\n{texts.source_label:10} {output.source}\n{texts.output_label:10} {output.text}")
        say("\n".join(f"Actual:    {reference}" for reference in output.references))


def _check_options(model: Model, task_options: Sequence[str], options: Options) -> None:
    """Raise a UserError for an option that does not apply to the run's task."""
    if "target_path" in task_options and options.target_path is not None and options.data is None:
        raise UserError(
            "--target-path is the file of the targets: name the file of the sources too"
        )
    unused = [name for name in TASK_OPTIONS if name not in task_options and getattr(options, name)]
    if "search" not in task_options:
        names = (option.name for option in fields(SearchConfig))
        own = model.experiment.search
        unused += [name for name in names if getattr(options.search, name) != getattr(own, name)]
    if unused:
        raise UserError(
            f"--{unused[0].replace('_', '-')} has no effect on {options.run}, a run with data.task "
            f"{model.data.task}: leave it out"
        )
