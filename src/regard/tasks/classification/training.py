"""The task of classification: a source in, one answer out, a label or numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import nn

from regard.building import build_classifier
from regard.building.memory import check_memory
from regard.config import AnswerDataConfig, ClassifierConfig, Experiment, TrainingConfig
from regard.data.batching import BatchSettings, PairBatches
from regard.data.examples import Pair
from regard.data.labels.encoded import EncodedLabels
from regard.data.labels.targets import Labels
from regard.errors import UserError
from regard.metrics.classification import LABEL_METRICS, NUMBER_METRICS, PredictionFunction
from regard.metrics.metric import Metric
from regard.models.classifier import HeadModel
from regard.runs.folder import RunFolder
from regard.runs.splits import Split
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.embeddings import begin_with_vectors
from regard.tasks.classification.inputs import Reading, placed
from regard.tasks.setup import NUM_EXAMPLES, Prepared
from regard.tasks.validation import metric_named
from regard.training.log import Example, Validation
from regard.training.objective import ClassObjective, NumberObjective, Objective, mean_loss

SENTENCES_AT_A_TIME = BatchSettings(tokens=8192, sentences=256)


def prepare(
    experiment: Experiment, data: AnswerDataConfig, split: Split, resumed: RunFolder | None
) -> Prepared:
    """Vocabularies, batches and a model for them. UserError where they do not fit each other."""
    config, model_config = experiment.training, experiment.model
    if not isinstance(model_config, ClassifierConfig):
        raise UserError(f"model.family {model_config.family} answers no whole sources")
    _check(config)
    pairs = list(split.train)
    reading = Reading.load(resumed, data) if resumed else Reading.of(data, pairs)
    encoded = _encoded(reading, pairs)
    settings = BatchSettings(data.batch_tokens, data.batch_sentences)
    build = partial(
        build_classifier,
        model_config,
        reading.num_source,
        reading.reader.features,
        reading.answers.size,
    )
    check_memory(build)
    torch.manual_seed(config.seed)
    model = build()
    said = _cut(encoded, data.max_length)
    if model_config.vectors is not None and resumed is None:
        said += (str(begin_with_vectors(model, reading.reader, model_config.vectors)),)
    return Prepared(
        experiment,
        model,
        PairBatches(encoded, settings, config.seed),
        _objective(reading, config.label_smoothing),
        _validation(experiment, reading, split.dev) if split.dev else None,
        len(encoded),
        _vocabularies(reading),
        reading.save,
        said,
    )


def _vocabularies(reading: Reading) -> str:
    words = f"vocabulary {reading.num_source:,}" if reading.num_source else "numbers"
    size = reading.answers.size
    if isinstance(reading.answers, Labels):
        return f"{words}, {size:,} labels"
    return f"{words}, {size} {'number' if size == 1 else 'numbers'} to answer"


def _cut(encoded: EncodedLabels, longest: int) -> tuple[str, ...]:
    """A sentence about sources that are not read to their ends, if there are any."""
    number = sum(source.is_cut for source in encoded.sources)
    said = f"read of {number} of the sources only the first {longest} tokens (data.max_length)"
    return (said,) if number else ()


def _check(config: TrainingConfig) -> None:
    """UserError for what is about writing texts."""
    for name, usual in (("teacher_forcing", 1.0), ("teacher_forcing_end", None), ("loss", "word")):
        if getattr(config, name) != usual:
            raise UserError(
                f"training.{name} is {getattr(config, name)}, but answers are not written token by "
                "token: leave it out"
            )
    if config.initial_run is not None:
        raise UserError(
            f"--init-from is {config.initial_run}, but classifiers begin with new weights, or with "
            "model.vectors: leave it out"
        )


def _encoded(reading: Reading, pairs: Sequence[Pair]) -> EncodedLabels:
    with placed(pairs):
        sources = reading.reader.encode([pair.source for pair in pairs])
    return EncodedLabels(sources, reading.answers.encode(pairs))


def _objective(reading: Reading, label_smoothing: float = 0.0) -> Objective:
    if isinstance(reading.answers, Labels):
        return ClassObjective(label_smoothing)
    return NumberObjective()


def _validation(
    experiment: Experiment, reading: Reading, dev: Sequence[Pair]
) -> Callable[[nn.Module], Validation]:
    """The dev score: how many answers are right, or how near they come."""
    texts, wanted = [pair.source for pair in dev], [pair.target for pair in dev]
    batches = PairBatches(_encoded(reading, dev), SENTENCES_AT_A_TIME, experiment.training.seed)
    metric = _metric(experiment.training, reading)

    def validate(model: nn.Module) -> Validation:
        classifier = Classifier(experiment, reading, cast(HeadModel, model))
        outputs = [each.text for each in classifier.classify(texts, attention=False)]
        score = metric.compute(outputs, wanted)
        loss = mean_loss(_objective(reading), model, (each.batch for each in batches.in_order()))
        examples = tuple(
            Example(pair.source, pair.target, output)
            for pair, output in zip(dev[:NUM_EXAMPLES], outputs, strict=False)
        )
        return Validation(score.value, score.name, loss, examples, metric.higher_is_better)

    return validate


def _metric(config: TrainingConfig, reading: Reading) -> Metric[PredictionFunction]:
    """Return the metric of the dev score; by default accuracy for labels, R2 for numbers."""
    if isinstance(reading.answers, Labels):
        return metric_named(config.metric, LABEL_METRICS, "accuracy", "labels")
    return metric_named(config.metric, NUMBER_METRICS, "r2", "numbers")
