"""Diagnosis of a finished training whose dev scores say that nothing was learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from regard.characters import quoted
from regard.config import Experiment, TrainingConfig
from regard.data.text.parallel import read_pairs
from regard.metrics.classification import accuracy, macro_f1
from regard.runs.folder import RunFolder
from regard.tasks.evaluation import EvaluationOptions, is_informative
from regard.tasks.training.checks import MIN_DEV, least_updates
from regard.training.log import EndLine
from regard.training.state import DECIMALS
from regard.viewing.curve import read_log

MAX_UNLEARNED = {
    "chrF": 10.0,
    "BLEU": 1.0,
    "BLEU-4": 1.0,
    "exact match": 1.0,
    "CIDEr-D": 15.0,
    "R2": 0.0,
}
"""Largest dev score, by metric, of a training that learned nothing."""
FALL = 0.05
"""Relative fall of a loss below which the loss counts as flat."""
UNBALANCED = 1.5
"""Frequency of a label, over that of equally frequent labels, above which weights are advised."""
SMALLER = "lower --data.batch-tokens or --data.batch-sentences"
SHORT_TARGETS = "for short targets use --training.metric chrf or exact_match"
BLEU_IS_ZERO = (
    "BLEU was 0 at every validation, so the dev loss alone selected the checkpoint. BLEU is 0 "
    f"unless four words in a row are right; {SHORT_TARGETS}"
)
BLEU_IS_LOW = f"BLEU counts four right words in a row; {SHORT_TARGETS}"

CHECKS = (
    "check the columns, whether sources determine targets, and the tokenizer (--data.tokenizer)"
)


def diagnose_run(end: EndLine, folder: RunFolder, experiment: Experiment) -> str | None:
    """Return a sentence with the likely cause if the finished training of a run learned nothing, or
    None."""
    data = experiment.data
    targets = list[str]()
    if folder.dev.exists():
        settings = EvaluationOptions(held_out=True).table_settings(data, folder.dev)
        targets = [pair.target for pair in read_pairs(folder.dev, settings=settings).pairs]
    return diagnose(end, read_log(folder.log), targets, experiment.training)


def diagnose(
    end: EndLine,
    records: Sequence[Mapping[str, Any]],
    targets: Sequence[str],
    training: TrainingConfig,
) -> str | None:
    """Return a sentence with the likely cause if a finished training learned nothing, or if no
    validation was better than that of its initial weights; otherwise None. With fewer than
    `MIN_DEV` dev targets the sentence says that this is uncertain.

    `records` are the lines of the log."""
    validations = [record for record in records if record["kind"] == "dev"]
    if end.interrupted or end.reason == "hours" or end.score is None or not validations:
        return None
    if (sentence := _not_better(records, validations)) is not None:
        return sentence
    metric = str(validations[-1]["metric"])
    maximum, comparison = MAX_UNLEARNED.get(metric), ""
    constant = {"accuracy": accuracy, "macro F1": macro_f1}.get(metric)
    weights = ""
    if constant and targets:
        counts = Counter(targets)
        ((label, count),) = counts.most_common(1)
        maximum = constant([label] * len(targets), targets).value
        comparison = f", not above {maximum:.2f} for always answering {quoted(label, 40)}"
        if count == len(targets) or (training.label_weights and metric == "accuracy"):
            return None  # weights of rare labels lower the accuracy
        if not training.label_weights and count * len(counts) > UNBALANCED * len(targets):
            weights = "; labels are unbalanced: set --training.label-weights balanced"
    if maximum is None or end.score > maximum:
        return None
    score, cause = f"dev {metric} {end.score:.2f}", _cause(end, records, validations, training)
    if not is_informative(metric, fmean(len(target.split()) for target in targets or [""])):
        bleu = BLEU_IS_LOW if end.score else BLEU_IS_ZERO
        return f"perhaps nothing was learned ({score}): {cause}{'. ' if cause else ''}{bleu}"
    losses = _dev_losses(validations)
    if _falls(losses):
        few = f" on {_examples(targets)}" if len(targets) < MIN_DEV else ""
        return (
            f"dev {metric} is still {end.score:.2f}{few}{comparison}, but the dev loss falls (from "
            f"{losses[0]:.3f} to {losses[-1]:.3f}): train longer; {_longer(end, training)}{weights}"
        )
    if len(targets) < MIN_DEV:
        score += f" on {_examples(targets)}{comparison}"
        cause = cause or "too few dev examples to be sure; hold out more (--data.dev-size)"
        return f"perhaps nothing was learned ({score}): {cause}{weights}"
    return f"nothing was learned ({score}{comparison}): {cause or CHECKS}{weights}"


def _not_better(
    records: Sequence[Mapping[str, Any]], validations: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return a sentence if the model has the initial weights, because no validation was better."""
    first, *later = validations
    averages = [record for record in records if record["kind"] == "average"]
    if first["update"] or not later or any(line["best"] for line in (*later, *averages)):
        return None
    metric, score = first["metric"], first["score"]
    best = min((line["score"] for line in later), key=lambda value: abs(value - score))
    is_equal = round(best, DECIMALS) == round(score, DECIMALS)
    value = "an equal score and no lower dev loss" if is_equal else f"{best:.2f}"
    return (
        f"the model has the initial weights (dev {metric} {score:.2f}): the best validation after "
        f"them has {value}; lower --training.learning-rate, or train longer"
    )


def _dev_losses(validations: Sequence[Mapping[str, Any]]) -> list[float]:
    return [record["loss"] for record in validations if record["loss"] is not None]


def _falls(losses: Sequence[float]) -> bool:
    """Return whether the last loss is the lowest and clearly below that of half the training, so
    that neither small validation intervals nor a flat end matter."""
    if len(losses) < 2 or losses[-1] > min(losses):
        return False
    half = losses[(len(losses) - 1) // 2]
    return losses[-1] < half - FALL * abs(half)


def _longer(end: EndLine, training: TrainingConfig) -> str:
    """Return the options for more updates than the training had until its end."""
    patience = "--training.patience and " if end.reason == "patience" else ""
    if training.updates:
        return f"raise {patience}--training.updates"
    return f"raise {patience}--training.epochs, or {SMALLER}"


def _examples(targets: Sequence[str]) -> str:
    return "1 example" if len(targets) == 1 else f"{len(targets)} examples"


def _cause(
    end: EndLine,
    records: Sequence[Mapping[str, Any]],
    validations: Sequence[Mapping[str, Any]],
    training: TrainingConfig,
) -> str:
    """Return the likely cause that the log shows, or an empty text."""
    if end.update < least_updates(training.warmup):
        updates = "update" if end.update == 1 else "updates"
        is_within = end.update < training.warmup
        less = f", fewer than the {training.warmup} of the warm-up" if is_within else ""
        return f"only {end.update} {updates}{less}; {_longer(end, training)}"
    losses = [record["loss"] for record in records if record["kind"] == "train"]
    dev = _dev_losses(validations)
    if len(dev) > 1 and min(dev) < dev[-1] and losses and losses[-1] < losses[0]:
        return "the model memorises the training data; add data, or raise --model.dropout"
    if losses and losses[-1] > (1 - FALL) * losses[0]:
        return "the training loss does not fall; lower --training.learning-rate"
    return ""
