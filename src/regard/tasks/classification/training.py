"""Training of a classifier or regressor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import nn

from regard.building.classifiers import build_classifier
from regard.building.ram import check_ram
from regard.characters import quoted
from regard.config import ClassificationDataConfig, Experiment, TrainingConfig
from regard.corpora.splits import Split
from regard.data.batching import BatchSettings, PairBatches
from regard.data.examples import Pair
from regard.data.labels.encoded import EncodedLabels
from regard.data.labels.targets import Labels, Targets, describe_unseen
from regard.errors import UserError
from regard.metrics.classification import LABEL_METRICS, NUMBER_METRICS, PredictionFunction
from regard.metrics.metric import Metric
from regard.models.heads import HeadModel
from regard.names import MetricName
from regard.runs.folder import RunFolder
from regard.runtime import processes
from regard.tasks.arguments import sections_of
from regard.tasks.classification.embeddings import set_embeddings
from regard.tasks.classification.inputs import InputsAndTargets, SeriesInputs, placed
from regard.tasks.classification.label_weights import describe, label_weights_of
from regard.tasks.classification.model import ClassificationModel
from regard.tasks.classification.teachers import load_teacher
from regard.tasks.source_form import SourceForm
from regard.tasks.training.checks import Finding, label_findings, series_findings
from regard.tasks.training.objectives import distillation_of
from regard.tasks.training.setup import NUM_EXAMPLES, TrainingSetup
from regard.tasks.training.teachers import teachers_of
from regard.tasks.training.validation import metric_named
from regard.training.log import Example, Validation
from regard.training.objectives.distillation import Teachers
from regard.training.objectives.objective import (
    ClassObjective,
    NumberObjective,
    Objective,
    mean_loss,
)
from regard.training.objectives.r_drop import RDrop

SENTENCES_AT_A_TIME = BatchSettings(tokens=8192, sentences=256)


def prepare(experiment: Experiment, split: Split, resumed: RunFolder | None) -> TrainingSetup:
    """Return vocabularies, batches and a model. UserError if they are inconsistent."""
    config = experiment.training
    data, model_config = sections_of(experiment, ClassificationDataConfig, experiment.name)
    _check(config)
    pairs = list(split.train)
    inputs = (
        InputsAndTargets.load(resumed, data)
        if resumed
        else InputsAndTargets.learn(data, pairs, split.train.units)
    )
    encoded = _encoded(inputs, pairs)
    settings = BatchSettings(data.batch_tokens, data.batch_sentences)
    build = partial(
        build_classifier,
        model_config,
        inputs.vocabulary_size,
        inputs.reader.features,
        inputs.targets.size,
    )
    check_ram(build)
    torch.manual_seed(config.seed)
    model = build()
    dev, unseen = _scored(inputs, split.dev)
    weights = _weights(config, inputs, encoded)
    reports = (*_cut(encoded, data.max_length), *unseen)
    if isinstance(inputs.targets, Labels):
        reports += describe(weights, inputs.targets)
    if model_config.vectors is not None and resumed is None:
        reports += (str(set_embeddings(model, inputs.reader, model_config.vectors)),)
    batches = PairBatches(encoded, settings, config.seed)
    return TrainingSetup(
        experiment,
        model,
        batches,
        objective_of(
            config,
            inputs.targets,
            teachers_of(config, partial(load_teacher, data, inputs)),
            weights,
        ),
        _validation(experiment, inputs, dev) if dev else None,
        len(encoded),
        _vocabularies(inputs),
        inputs.save,
        reports,
        longest=batches.longest,
        findings=_findings(inputs, pairs),
    )


def _findings(inputs: InputsAndTargets, pairs: Sequence[Pair]) -> tuple[Finding, ...]:
    """Return the findings about series and labels."""
    about_labels = label_findings(pairs) if isinstance(inputs.targets, Labels) else ()
    is_series = isinstance(inputs.reader, SeriesInputs)
    return (*about_labels, *(series_findings(pairs) if is_series else ()))


def _vocabularies(inputs: InputsAndTargets) -> str:
    words = f"vocabulary {inputs.vocabulary_size:,}" if inputs.vocabulary_size else "numbers"
    size = inputs.targets.size
    if isinstance(inputs.targets, Labels):
        return f"{words}, {size:,} labels"
    return f"{words}, {size} {'number' if size == 1 else 'numbers'} to predict"


def _cut(encoded: EncodedLabels, longest: int) -> tuple[str, ...]:
    """Return a message about sources that are cut at `longest` tokens, if any."""
    number = sum(source.is_cut for source in encoded.sources)
    report = f"cut {number} sources to their first {longest} tokens (data.max_length)"
    return (report,) if number else ()


def _scored(
    inputs: InputsAndTargets, dev: Sequence[Pair]
) -> tuple[Sequence[Pair], tuple[str, ...]]:
    """Return the dev examples whose labels are in the training data, and a message about the
    others. UserError if there are only others."""
    targets = inputs.targets
    unseen = targets.unseen(dev) if isinstance(targets, Labels) else ()
    if unseen and len(unseen) == len(dev):
        raise UserError(
            f"{dev[0].place}: the label {quoted(dev[0].target, 40)} is not in the training data, "
            "nor is that of any other dev example: add examples, or name the column of the labels "
            "(--data.target-column)"
        )
    left_out = {*unseen}
    known = [pair for pair in dev if pair not in left_out] if unseen else dev
    return known, describe_unseen(unseen, len(dev), "dev examples are not scored")


def _check(config: TrainingConfig) -> None:
    """Raise a UserError for an option of models that generate texts."""
    for name, usual in (("teacher_forcing", 1.0), ("teacher_forcing_end", None), ("loss", "word")):
        if getattr(config, name) != usual:
            raise UserError(
                f"training.{name} is {getattr(config, name)}, but a classifier generates no "
                "tokens: leave it out"
            )
    if config.initial_run is not None:
        raise UserError(
            f"--init-from is {config.initial_run}, but a classifier is newly initialised, or with "
            "model.vectors: leave it out"
        )


def _weights(
    config: TrainingConfig, inputs: InputsAndTargets, encoded: EncodedLabels
) -> tuple[float, ...]:
    """Return the weight of each label; empty for numbers, or if all are 1."""
    if not isinstance(inputs.targets, Labels):
        return ()
    return label_weights_of(config.label_weights, inputs.targets, encoded.targets)


def _encoded(inputs: InputsAndTargets, pairs: Sequence[Pair]) -> EncodedLabels:
    with placed(pairs):
        sources = inputs.reader.encode([pair.source for pair in pairs])
    return EncodedLabels(sources, inputs.targets.encode(pairs))


def objective_of(
    config: TrainingConfig,
    targets: Targets,
    teachers: Teachers | None = None,
    label_weights: tuple[float, ...] = (),
) -> Objective:
    """Return the training objective of a classifier or regressor. Distillation needs teachers."""
    if not isinstance(targets, Labels):
        return NumberObjective()
    entropy = ClassObjective(config.label_smoothing, label_weights)
    if config.objective == "distillation":
        return distillation_of(config, entropy, teachers)
    return RDrop(entropy, config.r_drop) if config.r_drop else entropy


def _validation(
    experiment: Experiment, inputs: InputsAndTargets, dev: Sequence[Pair]
) -> Callable[[nn.Module], Validation]:
    """Return the validation: the score of predictions and the loss on the dev split."""
    texts, references = [pair.source for pair in dev], [pair.target for pair in dev]
    batches = PairBatches(_encoded(inputs, dev), SENTENCES_AT_A_TIME, experiment.training.seed)
    metric = _metric(experiment.training, inputs)
    dev_objective = objective_of(TrainingConfig(), inputs.targets)

    def validate(model: nn.Module) -> Validation:
        classifier = ClassificationModel(experiment, inputs, cast(HeadModel, model))
        classifier.source_form = SourceForm()  # held-out sources are not rejected
        predictions = classifier.classify(processes.share(texts), attention=False)
        outputs = processes.gathered([prediction.text for prediction in predictions])
        score = metric.compute(outputs, references)
        loss = mean_loss(dev_objective, model, (each.batch for each in batches.in_order()))
        examples = tuple(
            Example(pair.source, pair.target, output)
            for pair, output in zip(dev[:NUM_EXAMPLES], outputs, strict=False)
        )
        return Validation(score.value, score.name, loss, examples, metric.higher_is_better)

    return validate


def _metric(config: TrainingConfig, inputs: InputsAndTargets) -> Metric[PredictionFunction]:
    """Return the metric `training.metric`; by default accuracy for labels, macro F1 for labels with
    weights, and R2 for numbers."""
    if isinstance(inputs.targets, Labels):
        default: MetricName = "macro_f1" if config.label_weights else "accuracy"
        return metric_named(config.metric, LABEL_METRICS, default, "labels")
    return metric_named(config.metric, NUMBER_METRICS, "r2", "numbers")
