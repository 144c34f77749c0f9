"""Check of data before training: counts, and the reasons why little or nothing can be learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import mean, median

from regard.characters import with_escapes
from regard.config import ClassificationDataConfig, Data, Experiment, resolve
from regard.config.data import names_files
from regard.corpora import splits
from regard.corpora.sources import DataSources
from regard.data.examples import Pair
from regard.errors import listed
from regard.runtime.progress import OnProgress
from regard.tasks.all_tasks import task_of
from regard.tasks.training.checks import Finding, check_findings
from regard.tasks.training.setup import TrainingSetup

SHOWN = 20
"""Number of labels whose counts are shown."""


@dataclass(frozen=True)
class DataCheck:
    """Counts of the data of an experiment, and findings about them."""

    counts: tuple[str, ...]
    """Sentences about the examples and their targets."""
    left_out: tuple[str, ...]
    """Messages about examples that are not used."""
    findings: tuple[Finding, ...]


def check_data(
    experiment: Experiment,
    on_progress: OnProgress | None = None,
    sources: DataSources | None = None,
) -> DataCheck:
    """Return counts and findings of a training without training. `sources` are the pairs of the
    data, if they are read. UserError if the data cannot be read, or if recipe and data do not
    fit."""
    experiment = resolve(experiment)
    split = splits.read(experiment.data, on_progress, sources=sources)
    setup = task_of(experiment.data).prepare(experiment, split, None, on_progress)
    problem = held_out_problem(experiment, setup)
    problems = (*split.unusable, problem) if problem is not None else split.unusable
    unusable = tuple(Finding("stop", text) for text in problems)
    pairs = list(chain(split.train, split.dev, split.test))
    sizes = f"{len(split.train):,} to train, {len(split.dev):,} dev, {len(split.test):,} test"
    noun = {"translate": "pairs", "classify": "examples", "caption": "captions"}
    return DataCheck(
        (
            f"{len(pairs):,} {noun[experiment.data.task]}: {sizes}; {setup.vocabularies}",
            *_targets(experiment.data, pairs),
        ),
        split.left_out + setup.left_out,
        (*unusable, *setup.findings),
    )


def held_out_problem(experiment: Experiment, setup: TrainingSetup) -> str | None:
    """Return the problem of data of which no pairs are held out for the dev score, if patience or
    averaging needs it."""
    data, config = experiment.data, experiment.training
    is_needed = config.patience is not None or config.average is not None
    if setup.validate is not None or not is_needed or data.dev_size is not None:
        return None
    if not names_files(data):
        return None
    noun = "pair" if setup.num_pairs == 1 else "pairs"
    place = data.path or "data.mix"
    return (
        f"{place} has {setup.num_pairs} {noun} to train on and none to hold out for the dev "
        "score: expected at least 20, with different sources; add pairs, set --data.dev-size, or "
        "use --training.patience None --training.average None"
    )


def check_files(data: Data, on_progress: OnProgress | None = None) -> None:
    """Raise a UserError if the files of the data cannot be read, or are unusable for training."""
    unusable = splits.read(data, on_progress).unusable
    check_findings(data, [Finding("stop", text) for text in unusable])


def _targets(data: Data, pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield sentences about the targets of labelled texts and of images."""
    if data.task == "caption":
        counts = Counter(pair.source for pair in pairs)
        minimum, maximum = min(counts.values()), max(counts.values())
        number = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
        yield f"{len(counts):,} images with {number} captions each; {_lengths(pairs, 'target')}"
    if not isinstance(data, ClassificationDataConfig):
        return
    if data.source == "text":
        yield _lengths(pairs, "source")
    if data.target == "label":
        labels = Counter(pair.target for pair in pairs).most_common()
        names = [f"{with_escapes(label[:40])} {count:,}" for label, count in labels]
        yield f"examples of each label: {listed(names, SHOWN)}"
    else:
        numbers = [float(pair.target.split()[0]) for pair in pairs]
        yield (
            f"targets from {min(numbers):g} to {max(numbers):g}, mean {mean(numbers):.4g}, "
            f"{len(set(numbers)):,} different"
        )


def _lengths(pairs: Sequence[Pair], side: str) -> str:
    """Return the lengths of sources or targets in words."""
    lengths = [len(getattr(pair, side).split()) for pair in pairs]
    noun = "texts" if side == "source" else "captions"
    return f"{noun} have {median(lengths):g} words (median), at most {max(lengths):,}"
