"""Every field of every kind of model changes what the model computes, or is named as unused."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import torch

from regard import recipes
from regard.building.captioners import build_captioner
from regard.building.classifiers import build_classifier
from regard.building.translators import build_translation
from regard.config import (
    CaptionDataConfig,
    CaptionModelConfig,
    ClassificationDataConfig,
    ClassificationModelConfig,
    DataConfig,
    Experiment,
    SearchConfig,
    TrainingConfig,
    TranslationModelConfig,
    resolve,
)
from regard.config.checks import alternatives, field_types
from regard.config.models import inheriting
from regard.config.unused import unused_fields
from regard.data.batch import Images, pad, with_targets
from regard.data.labels.targets import Labels
from regard.errors import UserError
from regard.pipeline.train import settings_of
from regard.tasks.classification.training import objective_of as classifier_objective
from regard.tasks.training.objectives import objective_of
from tests import configs

SMALL = dict(size=8, layers=1)
RECURRENT = configs.recurrent(**SMALL, cell="gru", attention=dict(size=5))
TRANSFORMER = configs.transformer(**SMALL, heads=2, feed_forward=7, max_positions=30)
CLASSIFIER = configs.classifier(**SMALL, attention=dict(size=5), bidirectional=True)
CAPTIONER = configs.captioner(
    size=8, layers=2, channels=(3, 4), embedding=5, attention=dict(size=5)
)


def attending(**values):
    return configs.changed(RECURRENT, attention={"size": None, **values})


KINDS = {
    "luong": RECURRENT,
    "bahdanau": configs.changed(RECURRENT, wiring="bahdanau", cell="lstm", layers=2),
    "residual": configs.recurrent(size=8, layers=3, connections="residual", bidirectional=True),
    "deep-att": configs.recurrent(
        size=8,
        layers=2,
        connections="fast_forward",
        wiring="bahdanau",
        query="first_layer",
        bidirectional=True,
        attention=dict(size=5),
    ),
    "gnmt": configs.recurrent(
        size=8, layers=3, connections="residual", wiring="gnmt", query="first_layer", output="state"
    ),
    "plain": configs.recurrent(**SMALL, wiring="plain", cell="gru"),
    "dot": attending(score="dot"),
    "local_m": attending(score="additive", scope="local_m", window=2),
    "local_p": attending(score="general", scope="local_p", window=2),
    "hard": attending(sampling="hard"),
    "straight through": attending(sampling="straight_through"),
    "transformer": TRANSFORMER,
    "learned positions": configs.changed(TRANSFORMER, positions="learned"),
    "before a transformer": configs.translation("recurrent", "transformer", **SMALL, heads=2),
    "after a transformer": configs.translation("transformer", "recurrent", **SMALL, heads=2),
    "after a bag of words": configs.translation("bag_of_words", "recurrent", **SMALL),
    "classifier": CLASSIFIER,
    "mean": configs.classifier(head="mean", **SMALL),
    "last": configs.classifier(head="last", **SMALL),
    "bag": configs.classifier("bag_of_words", size=8),
    "transformer classifier": configs.classifier("transformer", **SMALL, heads=2),
    "captioner": CAPTIONER,
    "transformer captioner": configs.captioner("transformer", **SMALL, heads=2, channels=(3, 4)),
}
NUMBERS = {
    "heads": 8,
    "dropout": 0.5,
    "activation_dropout": 0.5,
    "teacher_weight": 0.7,
    "temperature": 2.0,
    "window": 1,
    "key_layers": (0, 1),
    "value_layers": (0, 1),
    "channels": (5, 6),
    "embedding": 12,
    "label_smoothing": 0.1,
    "label_weights": ("balanced",),
    "teacher_forcing": 0.5,
    "teacher_forcing_end": 0.5,
    "max_positions": 29,
    "size": 16,
    "hours": 3.0,
    "likelihood_weight": 0.1,
    "discount": 0.5,
}
ELSEWHERE = ("vectors", "extra_vectors", "extra_vectors_shape", "name", "kind")
"""Files, which training reads; the shape of one, which training sets; the kind itself."""


def choices(record, name):
    """Other values of a field."""
    now = getattr(record, name)
    for kind in alternatives(field_types(type(record))[name]):
        if get_origin(kind) is Literal:
            yield from (choice for choice in get_args(kind) if choice != now)
    if isinstance(now, bool):
        yield not now
    elif name in NUMBERS:
        yield NUMBERS[name]
    elif isinstance(now, int | float):
        yield now + 1
    elif now is None and name not in (*ELSEWHERE, "reward"):
        yield 3


def variants(record, prefix=""):
    """Yield every other value of each field, of the parts and their attention too."""
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from variants(value, f"{prefix}{field.name}.")
        elif field.name not in ELSEWHERE:
            for other in choices(record, field.name):
                yield f"{prefix}{field.name}", other


def changed(record, name, value):
    section, dot, field = name.partition(".")
    return replace(
        record, **{section: changed(getattr(record, section), field, value) if dot else value}
    )


def computed(config):
    """Outputs in training and their gradients, by the same draws."""
    torch.manual_seed(1)
    if isinstance(config, ClassificationModelConfig):
        model = build_classifier(config, 13, 0, 3)
    elif isinstance(config, CaptionModelConfig):
        model = build_captioner(config, 16, 13)
    else:
        model = build_translation(config, 13, 13)
    torch.manual_seed(2)
    source = pad([[5, 6, 7, 8, 9, 10, 11], [9, 8, 5, 1]])
    if isinstance(config, TranslationModelConfig):
        source = replace(source, copies=source.ids)
    if isinstance(config, CaptionModelConfig):
        source = Images(torch.randint(255, (2, 3, 16, 16), dtype=torch.uint8))
    if isinstance(config, ClassificationModelConfig):
        terms = [model(source).predictions]
    else:
        output = model(with_targets(source, [[5, 6, 7, 8, 9, 4], [9, 8, 7, 3]]))
        terms = [output.features, *(penalty.value for penalty in output.penalties)]
    sum(term.square().sum() for term in terms).backward()
    return [*terms, *(weight.grad for weight in model.parameters())]


def differ(ours, theirs):
    if len(ours) != len(theirs) or any(
        a is not None and b is not None and a.shape != b.shape
        for a, b in zip(ours, theirs, strict=True)
    ):
        return True
    return not all(
        (a is None) == (b is None) and (a is None or torch.equal(a, b))
        for a, b in zip(ours, theirs, strict=True)
    )


def changes(config):
    """Yield each field, whether its first other valid value changes the results, and whether it is
    named as unused then."""
    first, done = computed(config), set()
    for name, value in variants(config):
        if name in done:
            continue
        try:
            variant = changed(config, name, value)
            is_new = differ(first, computed(variant))
        except UserError:
            continue
        done.add(name)
        unused = {field.name.removeprefix("model.") for field in unused_fields(experiment(variant))}
        inherits = name in ("size", "dropout") and not inheriting(config, name)
        yield name, is_new, inherits or bool({name, name.rpartition(".")[0]} & unused)


def experiment(model):
    """Return an experiment with this model."""
    data = {
        ClassificationModelConfig: ClassificationDataConfig,
        CaptionModelConfig: CaptionDataConfig,
    }
    kind = data.get(type(model), DataConfig)
    return Experiment(data=kind(max_length=20), model=model)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_model_has_an_effect_or_is_named(kind):
    fields = list(changes(KINDS[kind]))
    assert [name for name, is_new, is_named in fields if is_new == is_named] == []
    assert len(fields) > 7


DATA = {
    "translate": Experiment(),
    "classify": Experiment(data=ClassificationDataConfig(), model=ClassificationModelConfig()),
    "number": Experiment(
        data=ClassificationDataConfig(target="number"), model=ClassificationModelConfig()
    ),
    "caption": Experiment(data=CaptionDataConfig(), model=CaptionModelConfig()),
}
FORCED = ["training.teacher_forcing_unit"]
ALL_SEARCH = tuple(f"search.{field.name}" for field in fields(SearchConfig))
RULES = [
    # what is set, the fields that have no effect then
    (
        "translate",
        dict(training=dict(teacher_forcing_unit="token")),
        ["training.teacher_forcing_unit"],
    ),
    ("translate", dict(training=dict(teacher_forcing_unit="token", teacher_forcing=0.5)), []),
    ("translate", dict(training=dict(teacher_forcing_unit="token", teacher_forcing_end=0.5)), []),
    (
        "translate",
        dict(training=dict(teacher_forcing_unit="token", teacher_forcing=0.0)),
        ["training.teacher_forcing_unit"],
    ),
    ("translate", dict(training=dict(epochs=3, updates=5)), ["training.epochs"]),
    ("translate", dict(training=dict(epochs=3)), []),
    ("translate", dict(training=dict(label_smoothing=0.1)), []),
    ("classify", dict(training=dict(label_smoothing=0.1)), []),
    ("number", dict(training=dict(label_smoothing=0.1)), ["training.label_smoothing"]),
    (
        "classify",
        dict(training=dict(teacher_forcing_unit="token")),
        ["training.teacher_forcing_unit"],
    ),
    (
        "caption",
        dict(training=dict(teacher_forcing_unit="token")),
        ["training.teacher_forcing_unit"],
    ),
    (
        "translate",
        dict(training=dict(reward="gleu", samples=9, likelihood_weight=0.1, sharpness=0.1)),
        [f"training.{name}" for name in ("likelihood_weight", "reward", "samples", "sharpness")],
    ),
    (
        "caption",
        dict(training=dict(objective="self_critical", label_smoothing=0.1, sharpness=0.1)),
        ["training.label_smoothing", "training.sharpness"],
    ),
    (
        "translate",
        dict(training=dict(objective="expected_reward", label_smoothing=0.1, loss="sentence")),
        ["training.loss"],
    ),
    ("translate", dict(training=dict(objective="minimum_risk", sharpness=0.1)), []),
    (
        "classify",
        dict(
            training=dict(
                teachers=(Path("x"),),
                teacher_weight=0.1,
                divergence="jensen_shannon",
                temperature=2.0,
            )
        ),
        [
            f"training.{name}"
            for name in ("divergence", "teacher_weight", "teachers", "temperature")
        ],
    ),
    (
        "translate",
        dict(
            training=dict(
                objective="distillation",
                teachers=(Path("x"),),
                teacher_weight=1.0,
                label_smoothing=0.1,
            )
        ),
        ["training.label_smoothing"],
    ),
    ("translate", dict(training=dict(r_drop=1.0)), ["training.r_drop"]),
    ("translate", dict(training=dict(r_drop=1.0), model=dict(dropout=0.1)), []),
    ("classify", dict(training=dict(r_drop=1.0)), []),
    ("translate", dict(search=dict(coverage_penalty=0.2)), ["search.coverage_penalty"]),
    ("translate", dict(search=dict(early_stopping=False)), ["search.early_stopping"]),
    ("translate", dict(search=dict(early_stopping=False, coverage_penalty=0.2, beam=2)), []),
    ("translate", dict(search=dict(length_penalty=0.6)), []),
    ("translate", dict(search=dict(max_ratio=2.0, max_length=9)), ["search.max_ratio"]),
    ("classify", dict(search=dict(beam=4)), ["search.beam"]),
    ("number", dict(search=dict(beam=4, min_length=3)), ["search.beam", "search.min_length"]),
    ("translate", dict(data=dict(synthetic_size=9)), ["data.synthetic_size"]),
    ("translate", dict(data=dict(synthetic_size=9, synthetic="copy")), []),
    ("translate", dict(data=dict(dev_size=9, dev_path=Path("x"))), ["data.dev_size"]),
    ("classify", dict(data=dict(test_size=9, test_path=Path("x"))), ["data.test_size"]),
    ("caption", dict(data=dict(dev_size=9, dev_list=Path("x"))), ["data.dev_size"]),
    ("classify", dict(data=dict(source="series", tokenizer="characters")), ["data.tokenizer"]),
    ("classify", dict(data=dict(source="series", min_count=2)), ["data.min_count"]),
    ("classify", dict(data=dict(source="series", lowercase=True)), ["data.lowercase"]),
    ("classify", dict(data=dict(standardise=False)), ["data.standardise"]),
    ("number", dict(data=dict(target="number", standardise=False)), []),
    ("translate", dict(data=dict(tokenizer="unigram", min_count=2)), ["data.min_count"]),
    ("translate", dict(data=dict(tokenizer="bpe", min_count=2)), []),
    ("translate", dict(data=dict(vocabulary=("a",), vocabulary_size=9)), ["data.vocabulary_size"]),
    (
        "translate",
        dict(data=dict(tokenizers_path=Path("x"), tokenizer="spaces", lowercase=True)),
        ["data.lowercase", "data.tokenizer"],
    ),
]


@pytest.mark.parametrize(("kind", "sections", "names"), RULES, ids=str)
def test_fields_without_effect_are_named(kind, sections, names):
    experiment = DATA[kind]
    for section, values in sections.items():
        record = replace(getattr(experiment, section), **values)
        experiment = replace(experiment, **{section: record})
    assert [unused.name for unused in unused_fields(experiment)] == names


def test_every_field_of_the_search_is_unused_by_classifiers():
    search = SearchConfig(
        beam=2,
        length_penalty=0.6,
        coverage_penalty=0.1,
        no_repeat_ngram=3,
        repetition_penalty=1.2,
        min_length=1,
        max_length=5,
        max_source=7,
        max_ratio=2.0,
        max_memory=64,
        early_stopping=False,
        unknown_replacement=True,
        lexicon=Path("x"),
        precision="bfloat16",
        unknown="allow",
    )
    experiment = replace(DATA["classify"], search=search)
    assert {unused.name for unused in unused_fields(experiment)} == set(ALL_SEARCH)


@pytest.mark.parametrize("task", ["translate", "classify"])
def test_every_field_of_training_changes_the_settings_or_is_named(task):
    """Settings of training are records, equal only if all of them are."""
    first = _settings(DATA[task], TrainingConfig())
    for name, value in variants(TrainingConfig()):
        if name in ("initial_run", "freeze", "device", "metric", "epochs", "label_weights"):
            continue  # read by `prepare`, by keep_fixed, device_of and measure_of
        if name == "objective" and (task == "classify" or value == "distillation"):
            continue  # rejected, or needs teachers
        training = replace(TrainingConfig(), **{name: value})
        named = {unused.name for unused in unused_fields(replace(DATA[task], training=training))}
        if f"training.{name}" not in named and not (task == "classify" and name in OF_TEXTS):
            assert _settings(DATA[task], training) != first, name


OF_TEXTS = ("loss", "teacher_forcing", "teacher_forcing_end")
"""Refused for classifiers."""


def _settings(experiment, training):
    if isinstance(experiment.data, ClassificationDataConfig):
        objective = classifier_objective(training, Labels(("a", "b")))
    else:
        objective = objective_of(training, print)
    precision = "float32" if training.precision == "float32" else "bfloat16"
    return settings_of(training, objective, precision)


@pytest.mark.parametrize("name", recipes.names())
def test_no_recipe_sets_a_field_in_vain(name):
    recipe = recipes.load(recipes.find(name))
    assert unused_fields(recipe) == ()
    assert unused_fields(resolve(recipe)) == ()
