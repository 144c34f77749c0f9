"""Fields that are set and have no effect, because of the values of other fields.

A field counts as set if it differs from its default. Every rule has fields and the reason; training
reports both before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from regard.config.checks import changed_fields
from regard.config.data import CaptionDataConfig, ClassificationDataConfig, DataConfig
from regard.config.experiment import Experiment
from regard.config.search import SearchConfig
from regard.config.training import TrainingConfig

LEARNED = ("min_count", "vocabulary_size")
"""Fields that decide which pieces a vocabulary has."""
OF_BEAMS = ("coverage_penalty", "early_stopping")
ONE_HYPOTHESIS = "a beam of 1 has only one hypothesis: set search.beam (--beam) to 2 or more"


class Unused(NamedTuple):
    """A field without effect, by its full name."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} has no effect: {self.reason}"


def unused_fields(experiment: Experiment) -> tuple[Unused, ...]:
    """Return the fields of an experiment that are set and have no effect."""
    sections: tuple[tuple[str, Any, Iterator[Rule]], ...] = (
        ("data", experiment.data, _data(experiment.data)),
        ("training", experiment.training, _training(experiment)),
        ("search", experiment.search, _search(experiment)),
    )
    model = (
        Unused(f"model.{part}.{name}", reason)
        for part, record in experiment.model.parts.items()
        for name, reason in record.unused
    )
    rest = (
        Unused(f"{section}.{name}", reason)
        for section, record, rules in sections
        for names, reason in rules
        for name in changed_fields(record, *names)
    )
    unique = {field.name: field for field in (*rest, *model)}
    return tuple(unique[name] for name in sorted(unique))


Rule = tuple[tuple[str, ...], str]


def _data(data: DataConfig | ClassificationDataConfig | CaptionDataConfig) -> Iterator[Rule]:
    if data.synthetic is None:
        yield ("synthetic_size",), "data.synthetic is not set"
    match data:
        case DataConfig():
            yield from _pairs(data)
        case ClassificationDataConfig():
            yield from _examples(data)
        case CaptionDataConfig():
            if data.dev_list is not None:
                yield ("dev_size",), "data.dev_list names the dev images"
            if data.test_list is not None:
                yield ("test_size",), "data.test_list names the test images"
    if data.tokenizer == "unigram":
        yield ("min_count",), "unigram tokenizers do not count words"


def _pairs(data: DataConfig) -> Iterator[Rule]:
    if data.dev_path is not None:
        yield ("dev_size",), "data.dev_path holds the dev pairs"
    if data.tokenizers_path is not None:
        learned = ("tokenizer", "target_tokenizer", "lowercase", "vocabulary", "shared_vocabulary")
        yield (*learned, *LEARNED), "data.tokenizers_path sets the tokenizers"
    elif data.vocabulary is not None:
        yield (*LEARNED, "shared_vocabulary"), "data.vocabulary lists the pieces of both sides"


def _examples(data: ClassificationDataConfig) -> Iterator[Rule]:
    if data.dev_path is not None:
        yield ("dev_size",), "data.dev_path holds the dev examples"
    if data.test_path is not None:
        yield ("test_size",), "data.test_path holds the test examples"
    if data.target == "label":
        yield ("standardise",), "labels are not numbers"
    if data.source == "series":
        yield ("tokenizer", "lowercase", *LEARNED), "series of numbers have no words"
    if data.source == "items":
        yield ("tokenizer",), "the name of an item is one token"


def _training(experiment: Experiment) -> Iterator[Rule]:
    training = experiment.training
    if training.updates is not None:
        yield ("epochs",), "training.updates sets the length"
    forcing = {training.teacher_forcing, training.teacher_forcing_end} - {None}
    if forcing in ({1}, {0}):
        yield ("teacher_forcing_unit",), "all inputs are forced alike (training.teacher_forcing)"
    if getattr(experiment.data, "target", None) != "label":
        yield ("label_weights",), "the targets are not labels"
    yield from _rewards(training)
    yield from _distillation(training)
    if not any(_dropouts(experiment.model.resolve())):
        yield ("r_drop",), "the model has no dropout, so two passes are equal (model.dropout)"
    if isinstance(experiment.data, ClassificationDataConfig):
        yield ("teacher_forcing_unit",), "labels and numbers are not decoded token by token"
        if experiment.data.target == "number":
            yield ("label_smoothing",), "numbers have no probabilities"


def _rewards(training: TrainingConfig) -> Iterator[Rule]:
    objective, weight = training.objective, training.likelihood_weight
    reason = f"training.objective is {objective}"
    if not training.has_rewards:
        yield ("reward", "samples", "likelihood_weight", "sharpness"), reason
        return
    yield ("loss",), f"{reason}, whose loss is a sum over sentences"
    if objective != "minimum_risk":
        yield ("sharpness",), reason
    if not weight and not (weight is None and objective == "expected_reward"):
        forcing = ("teacher_forcing", "teacher_forcing_end", "teacher_forcing_unit")
        yield ("label_smoothing", *forcing), f"{reason} without likelihood"


def _distillation(training: TrainingConfig) -> Iterator[Rule]:
    if training.objective != "distillation":
        names = ("teachers", "teacher_weight", "divergence", "temperature")
        yield names, f"training.objective is {training.objective}"
    elif training.teacher_weight == 1:
        yield ("label_smoothing",), "training.teacher_weight is 1, so there is no likelihood"


def _dropouts(record: Any) -> Iterator[float]:
    """Yield the dropouts of a model and of its parts."""
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from _dropouts(value)
        elif field.name.endswith("dropout") and value is not None:
            yield value


def _search(experiment: Experiment) -> Iterator[Rule]:
    search = experiment.search
    if isinstance(experiment.data, ClassificationDataConfig):
        yield (
            tuple(SearchConfig.__dataclass_fields__),
            "labels and numbers are not decoded by a search",
        )
    if search.beam == 1:
        yield OF_BEAMS, ONE_HYPOTHESIS
    if search.max_length is not None:
        yield ("max_ratio",), "search.max_length sets the length"
