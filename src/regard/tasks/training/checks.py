"""Checks of the data before training: reasons why little or nothing can be learned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path

from regard.characters import comparable, quoted, with_escapes
from regard.config import Data, ModelConfig, TrainingConfig
from regard.data.examples import Pair
from regard.data.files.lines import numbers_of
from regard.data.recognition.decimals import is_count, is_number
from regard.data.several_labels import find_several_labels
from regard.data.text.features import FeatureTokenizer, split_source
from regard.data.text.subword_marks import marks_of
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError, listed
from regard.metrics.text import gleu_words
from regard.names import Severity
from regard.tasks.training.initialisation import SHOWN, Initialisation, differing_options

NEARLY_ALL = 0.95
"""Share of unknown held-out tokens above which nothing can be learned."""
MANY = 0.3
"""Share of unknown held-out tokens above which outputs are poor."""
MIN_DEV = 20
"""Number of dev pairs below which unknown tokens are not counted and dev scores are uncertain."""
MIN_PAIRS = 50
MIN_EXAMPLES = 20
"""Least number of examples of a label."""
SHOWN_LABELS = 5
"""Number of similar labels in a message."""
MIN_IMAGES = 2000
"""Number of images below which an encoder trained from scratch learns little."""
MIN_UPDATES = 200
"""Number of updates below which a training with warm-up learns little."""
USUAL_UPDATES = 600
"""Number of updates that is proposed in place of too few."""
AFTER_WARMUP = 3
"""Number of proposed updates for each update of the warm-up, if these are more."""
MIN_WAIT = 100
"""Number of updates that patience should wait for a better dev score."""
TWO_NUMBERS = re.compile(r"[-+]?\d+,\d+")
"""Two whole numbers, or one with a decimal comma."""
NUM_PAIRS = 20_000
"""Number of training pairs that are inspected."""
NUM_GLEU = 1000
"""Number of training targets whose words are counted as in GLEU."""


@dataclass(frozen=True)
class Finding:
    """Reason why little or nothing can be learned, with the option that helps."""

    severity: Severity
    text: str


def check_findings(data: Data, findings: Sequence[Finding]) -> None:
    """Raise a UserError for the first finding that stops a training, unless data.checks is warn."""
    stops = [finding.text for finding in findings if finding.severity == "stop"]
    if stops and data.checks == "stop":
        raise UserError(f"{stops[0]}; to train anyway: --data.checks warn")


def pair_findings(
    tokenizers: tuple[Tokenizer | FeatureTokenizer, Tokenizer],
    train: Iterable[Pair],
    dev: Sequence[Pair],
    tokenizers_path: Path | None = None,
) -> tuple[Finding, ...]:
    """Return the findings about pairs of texts. At most `NUM_PAIRS` training pairs are read.
    Features are not checked. `tokenizers_path` is the run that the tokenizers come from, unless
    they are new."""
    pairs = list(islice(train, NUM_PAIRS))
    sources, held_out = [[split_source(pair.source)[0] for pair in part] for part in (pairs, dev)]
    targets = [pair.target for pair in dev]
    findings = [
        *_unknown("source", "tokenizer", tokenizers[0], held_out, tokenizers_path),
        *_unknown("target", "target-tokenizer", tokenizers[1], targets, tokenizers_path),
    ]
    findings += _split_into_subwords("source", sources)
    findings += _split_into_subwords("target", [pair.target for pair in pairs])
    outputs = {pair.target for pair in pairs}
    if len(pairs) >= MIN_DEV and len(outputs) == 1:
        findings.append(
            Finding(
                "stop",
                f"all {len(pairs):,} training targets are {quoted(next(iter(outputs)), 40)}, so "
                "nothing can be learned: name another column with --data.target-column",
            )
        )
    if len(pairs) >= MIN_DEV and is_count(sources):
        findings.append(
            Finding(
                "warn",
                f"the sources are the numbers {', '.join(sources[:3])}, …: name the column of the "
                "sources with --data.source-column",
            )
        )
    if len(pairs) < MIN_PAIRS:
        findings.append(_few(f"{len(pairs)} training {'pair' if len(pairs) == 1 else 'pairs'}"))
    return tuple(findings)


def _split_into_subwords(side: str, texts: Sequence[str]) -> list[Finding]:
    """Return a finding if texts were split into subwords before."""
    marks = marks_of(texts)
    if marks is None:
        return []
    outputs = (
        "; they are joined before scores, and in translations with `regard translate --join-pieces`"
    )
    return [
        Finding(
            "warn",
            f"the {side} texts are already split into subwords ({marks}): use "
            f"--data.tokenizer spaces, or join the pieces{outputs if side == 'target' else ''}",
        )
    ]


def _unknown(
    side: str,
    option: str,
    tokenizer: Tokenizer | FeatureTokenizer,
    held_out: Sequence[str],
    tokenizers_path: Path | None,
) -> list[Finding]:
    """Return a finding if many tokens of the held-out texts are unknown."""
    share = tokenizer.unknown_share_of(held_out)
    if len(held_out) < MIN_DEV or share < MANY:
        return []
    noun = "words" if tokenizer.cuts_words else "letters"
    beginning = f"{share:.0%} of the held-out {side} {noun} are unknown".replace("%", " %")
    if tokenizers_path is not None:
        beginning += f" to the vocabulary of {tokenizers_path}"
        remedy = "a new vocabulary (without --data.tokenizers-path)"
    elif tokenizer.cuts_words:
        is_single = sum(len(text.split()) == 1 for text in held_out) > len(held_out) / 2
        kind = "characters (for single words)" if is_single else "bpe (for sentences)"
        remedy = f"--data.{option} {kind}"
    else:
        remedy = "pairs in which letters occur again"
    if share >= NEARLY_ALL:
        return [Finding("stop", f"{beginning}, so nothing can be learned: use {remedy}")]
    return [Finding("warn", f"{beginning}, so outputs will be poor: consider {remedy}")]


def label_findings(train: Sequence[Pair]) -> tuple[Finding, ...]:
    """Return the findings about texts with labels."""
    counts = Counter(pair.target for pair in train)
    findings = []
    if len(counts) == 1 and len(train) > 1:
        findings.append(
            Finding(
                "warn",
                f"all {len(train):,} training examples have the label "
                f"{quoted(next(iter(counts)), 40)}: check the column with --data.target-column",
            )
        )
    elif len(train) >= MIN_DEV and len(counts) > len(train) / 2:
        findings.append(
            Finding(
                "warn",
                f"{len(counts):,} labels for {len(train):,} training examples: check the column "
                "with --data.target-column, or train pairs with `regard train letters FILE`",
            )
        )
    else:
        rare = [label for label, count in counts.items() if count < MIN_EXAMPLES]
        if rare and len(train) >= MIN_DEV:
            shown = ", ".join(f"{with_escapes(label[:20])} ({counts[label]})" for label in rare[:3])
            noun = "label has" if len(rare) == 1 else "labels have"
            findings.append(
                Finding(
                    "warn",
                    f"{len(rare)} {noun} fewer than {MIN_EXAMPLES} training examples: {shown}; "
                    "expect poor predictions of these labels",
                )
            )
    return (*_several_labels(train, counts), *findings, *_similar_labels(counts))


def series_findings(train: Sequence[Pair]) -> tuple[Finding, ...]:
    """Return a finding about series whose positions all are two whole numbers with a comma between
    them, which may be decimal commas."""
    pieces = [piece for pair in train for piece in pair.source.split()]
    if not pieces or not all(map(TWO_NUMBERS.fullmatch, pieces)):
        return ()
    first, second = pieces[0].split(",")
    return (
        Finding(
            "warn",
            f"the comma in {pieces[0]} divides two features, {first} and {second}, as in each "
            f"position of the sources: if it is a decimal comma, write {first}.{second}",
        ),
    )


def _several_labels(train: Sequence[Pair], counts: Counter[str]) -> tuple[Finding, ...]:
    """Return the finding about cells with several labels."""
    several = find_several_labels(counts)
    if several is None:
        return ()
    lines = [pair.line for pair in train if pair.target in several.cells]
    cell = max(several.cells, key=lambda cell: counts[cell])
    noun = "example has" if len(lines) == 1 else "examples have"
    return (
        Finding(
            "stop",
            f"{len(lines):,} training {noun} several labels ({numbers_of(lines)}), such as "
            f"{quoted(cell, 40)}, but a run learns one label for each text: keep one label in each "
            "row, or name another column with --data.target-column",
        ),
    )


def _similar_labels(counts: Counter[str]) -> tuple[Finding, ...]:
    """Return the finding about labels that differ only in case, white space, characters that are
    not seen, or forms of letters, quotes, hyphens or numbers."""
    groups: dict[str, list[str]] = {}
    for label in sorted(counts):
        text = comparable(label)
        key = repr(float(text)) if is_number(text) else text
        groups.setdefault(key, []).append(label)
    similar = [labels for labels in groups.values() if len(labels) > 1]
    if not similar:
        return ()
    shown = [
        ", ".join(f"{quoted(label, 20)} ({counts[label]:,})" for label in labels[:SHOWN_LABELS])
        for labels in similar
    ]
    return (
        Finding(
            "warn",
            "labels that differ only in case, white space, invisible characters, or forms of "
            "letters, quotes, hyphens or numbers are different labels: "
            f"{listed(shown, SHOWN_LABELS, '; ')}; write them alike "
            "if they mean the same",
        ),
    )


def caption_findings(num_images: int, *, is_pretrained: bool) -> tuple[Finding, ...]:
    """Return the findings about images with captions."""
    if is_pretrained or num_images >= MIN_IMAGES:
        return ()
    return (
        Finding(
            "warn",
            f"{num_images:,} images: expect similar captions for all; --model.encoder.kind "
            "backbone uses a pretrained network",
        ),
    )


def reward_findings(
    config: TrainingConfig, model: ModelConfig, initialisation: Initialisation | None
) -> tuple[Finding, ...]:
    """Return the findings about rewards for a model whose weights are newly initialised, at least
    most of them. `initialisation` is that of a training which is not resumed."""
    if not config.has_rewards:
        return ()
    samples = (
        f"training.objective is {config.objective}, and samples of a newly initialised model have "
        "hardly any reward: "
    )
    if config.initial_run is None:
        return (Finding("warn", f"{samples}--init-from starts from a trained run"),)
    if initialisation is None or not initialisation.is_mostly_new:
        return ()
    run = initialisation.run
    options = differing_options(run, model)
    remedy = (
        f"repeat the model options of that run: {listed(options, SHOWN, ' ')}"
        if options
        else "--init-from a run of this model"
    )
    text = f"{samples}{initialisation.share_copied} are those of {run}; {remedy}"
    return (Finding("warn", text),)


def gleu_findings(config: TrainingConfig, train: Iterable[Pair]) -> tuple[Finding, ...]:
    """Return the finding that most training targets are one word, for which GLEU rewards few
    samples."""
    if not config.has_rewards or config.reward not in (None, "gleu"):
        return ()
    lengths = [len(gleu_words(pair.target)) for pair in islice(train, NUM_GLEU)]
    if sum(length == 1 for length in lengths) <= len(lengths) / 2:
        return ()
    return (
        Finding(
            "warn",
            "most targets are one word, and the reward gleu counts words: it is 0 for every "
            "sample without the word of its reference. Start from a run with a high dev exact "
            "match (--init-from), or raise --training.samples",
        ),
    )


def least_updates(warmup: int) -> int:
    """Return the number of updates below which a training learns little, from the updates of its
    warm-up."""
    return max(MIN_UPDATES, warmup)


def length_findings(
    updates_per_epoch: int, epochs: int, patience: int | None, warmup: int = 0
) -> tuple[Finding, ...]:
    """Return the findings about a training whose length is a number of epochs, each with a
    validation. `warmup` is the number of updates of its warm-up."""
    if updates_per_epoch * epochs >= least_updates(warmup):
        return ()
    noun = "update" if updates_per_epoch == 1 else "updates"
    usual = max(USUAL_UPDATES, AFTER_WARMUP * warmup)
    remedy = f"--training.epochs {ceil(usual / updates_per_epoch)}"
    if patience is not None and patience * updates_per_epoch < MIN_WAIT:
        remedy += f" --training.patience {ceil(MIN_WAIT / updates_per_epoch)}"
    return (
        Finding(
            "warn",
            f"{'1 epoch' if epochs == 1 else f'{epochs} epochs'} of {updates_per_epoch} {noun} "
            f"{'is' if epochs == 1 else 'are'} a short training: {remedy} learns more",
        ),
    )


def _few(text: str) -> Finding:
    return Finding("warn", f"{text}; expect the training data to be memorised")
