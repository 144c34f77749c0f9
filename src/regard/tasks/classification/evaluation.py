"""Scores of a classifier or regressor."""

from __future__ import annotations

from collections.abc import Sequence

from regard.characters import composed
from regard.data.examples import Pair
from regard.data.labels.targets import Labels, describe_unseen
from regard.metrics.classification import LABEL_METRICS, NUMBER_METRICS
from regard.metrics.slices import Feature, Slice, find_slices
from regard.names import SourceKind
from regard.runtime.progress import OnProgress
from regard.tasks.classification.inputs import placed
from regard.tasks.classification.model import ClassificationModel
from regard.tasks.evaluation import Evaluation, ScoredOutput, parts_of

SOURCES_AT_A_TIME = 512


def evaluate(
    classifier: ClassificationModel,
    pairs: Sequence[Pair],
    *,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Classify all sources: accuracy and macro F1 for labels; R2, mean error and root mean square
    error for numbers. A label that the run cannot predict counts as wrong. UserError for a target
    that is not numbers, or if the run can predict no label of the pairs."""
    known_targets = classifier.inputs.targets
    unseen = known_targets.unseen(pairs) if isinstance(known_targets, Labels) else ()
    if not unseen or len(unseen) == len(pairs):
        known_targets.encode(pairs)  # checks the targets
    texts: list[str] = []
    for part in parts_of(pairs, SOURCES_AT_A_TIME, "classifying", on_progress):
        with placed(part):
            predictions = classifier.classify([pair.source for pair in part], attention=False)
        texts.extend(prediction.text for prediction in predictions)
    targets = [composed(pair.target) for pair in pairs]
    metrics = LABEL_METRICS if classifier.labels else NUMBER_METRICS
    scores = tuple(metric.compute(texts, targets) for metric in metrics)
    outputs = tuple(
        ScoredOutput(pair.source, text, (target,))
        for pair, text, target in zip(pairs, texts, targets, strict=True)
    )
    left_out = describe_unseen(unseen, len(pairs), "examples count as wrong")
    slices = worse_slices(outputs, classifier.data.source) if classifier.labels else ()
    return Evaluation(len(pairs), scores, outputs, left_out=left_out, slices=slices)


def worse_slices(outputs: Sequence[ScoredOutput], kind: SourceKind) -> tuple[Slice, ...]:
    """Return the lengths and labels on which the accuracy is lower than elsewhere. Items have no
    length that is counted."""
    labels = [output.references[0] for output in outputs]
    correct = [
        100.0 * (output.text == label) for output, label in zip(outputs, labels, strict=True)
    ]
    features = [Feature("label {}", labels)]
    if kind != "items":
        noun = "words" if kind == "text" else "positions"
        lengths = [len(output.source.split()) for output in outputs]
        features.append(Feature(f"sources of {{}} {noun}", lengths))
    return find_slices(correct, features, "accuracy")
