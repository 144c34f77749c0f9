"""Every field of every kind of model changes what the model computes, or is named as unused."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import torch

from regard import recipes
from regard.building import build_captioner, build_classifier, build_translation
from regard.config import (
    AnswerDataConfig,
    AttentionConfig,
    CaptionDataConfig,
    CaptionerConfig,
    ClassifierConfig,
    Experiment,
    RecurrentConfig,
    SearchConfig,
    TrainingConfig,
    TransformerConfig,
)
from regard.config.checks import alternatives, hints_of
from regard.config.unused import unused_fields
from regard.data.batch import Images, pad, with_targets
from regard.errors import UserError
from regard.pipeline.train import settings_of
from regard.tasks.translation.training import objective_of
from regard.training.objective import ClassObjective

ATTENTION = AttentionConfig(size=5, window=2)
RECURRENT = RecurrentConfig(
    cell="gru", hidden=6, embedding=6, layers=1, wiring="luong", attention=ATTENTION
)
TRANSFORMER = TransformerConfig(size=8, layers=1, heads=2, feed_forward=7, longest=30)
CLASSIFIER = ClassifierConfig(embedding=8, hidden=4, heads=2, feed_forward=7, attention=ATTENTION)
CAPTIONER = CaptionerConfig(
    channels=(3, 4), size=8, embedding=5, heads=2, feed_forward=7, attention=ATTENTION
)


def with_attention(config, **changes):
    return replace(config, attention=replace(config.attention, **changes))


KINDS = {
    "luong": RECURRENT,
    "bahdanau": replace(RECURRENT, wiring="bahdanau", cell="lstm", layers=2),
    "plain": replace(RECURRENT, wiring="plain"),
    "dot": with_attention(RECURRENT, score="dot"),
    "local_m": with_attention(RECURRENT, scope="local_m"),
    "local_p": with_attention(RECURRENT, scope="local_p", score="general"),
    "transformer": TRANSFORMER,
    "learned positions": replace(TRANSFORMER, positions="learned"),
    "classifier": CLASSIFIER,
    "mean": replace(CLASSIFIER, pool="mean"),
    "bag": replace(CLASSIFIER, encoder="embedding"),
    "transformer classifier": replace(CLASSIFIER, encoder="transformer"),
    "captioner": CAPTIONER,
    "hard": replace(CAPTIONER, looks="hard"),
    "transformer captioner": replace(CAPTIONER, decoder="transformer"),
}
NUMBERS = {
    "heads": 8,
    "dropout": 0.5,
    "activation_dropout": 0.5,
    "temperature": 2.0,
    "window": 1,
    "keys": (0, 1),
    "values": (0, 1),
    "channels": (5, 6),
    "embedding": 12,
    "label_smoothing": 0.1,
    "teacher_forcing": 0.5,
    "teacher_forcing_end": 0.5,
    "longest": 29,
    "size": 16,
}
ELSEWHERE = ("vectors", "external", "external_shape", "backbone", "family")
"""Files, which training reads; the shape of one, which training sets; the kind itself."""


def choices(record, name):
    """Other values of a field."""
    now = getattr(record, name)
    for kind in alternatives(hints_of(type(record))[name]):
        if get_origin(kind) is Literal:
            yield from (choice for choice in get_args(kind) if choice != now)
    if isinstance(now, bool):
        yield not now
    elif name in NUMBERS:
        yield NUMBERS[name]
    elif isinstance(now, int | float):
        yield now + 1
    elif now is None and name not in ELSEWHERE:
        yield 3


def variants(config):
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            for inner in fields(value):
                for other in choices(value, inner.name):
                    yield f"attention.{inner.name}", other
        elif field.name not in ELSEWHERE:
            for other in choices(config, field.name):
                yield field.name, other


def changed(config, name, value):
    section, dot, field = name.partition(".")
    if dot:
        return with_attention(config, **{field: value})
    return replace(config, **{section: value})


def computed(config):
    """Outputs in training and their gradients, by the same draws."""
    torch.manual_seed(1)
    if isinstance(config, ClassifierConfig):
        model = build_classifier(config, 13, 0, 3)
    elif isinstance(config, CaptionerConfig):
        model = build_captioner(config, 16, 13)
    else:
        model = build_translation(config, 13, 13)
    torch.manual_seed(2)
    source = pad([[5, 6, 7, 8, 9, 10, 11], [9, 8, 5, 1]])
    if isinstance(config, CaptionerConfig):
        source = Images(torch.randint(255, (2, 3, 16, 16), dtype=torch.uint8))
    if isinstance(config, ClassifierConfig):
        terms = [model(source).values]
    else:
        output = model(with_targets(source, [[5, 6, 7, 8, 9, 4], [9, 8, 7, 3]]))
        terms = [output.features, *(penalty.value for penalty in output.penalties)]
    sum(term.square().sum() for term in terms).backward()
    return [*terms, *(weight.grad for weight in model.parameters())]


def differ(ours, theirs):
    if len(ours) != len(theirs):
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
        yield name, is_new, bool({name, name.partition(".")[0]} & set(variant.unused))


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_model_has_an_effect_or_is_named(kind):
    fields = list(changes(KINDS[kind]))
    assert [name for name, is_new, is_named in fields if is_new == is_named] == []
    assert len(fields) > 15


DATA = {
    "translate": Experiment(),
    "classify": Experiment(data=AnswerDataConfig(), model=ClassifierConfig()),
    "number": Experiment(data=AnswerDataConfig(answer="number"), model=ClassifierConfig()),
    "caption": Experiment(data=CaptionDataConfig(), model=CaptionerConfig()),
}
FORCED = ["training.forced_by"]
ALL_SEARCH = tuple(f"search.{field.name}" for field in fields(SearchConfig))
RULES = [
    # what is set, the fields that have no effect then
    ("translate", dict(training=dict(forced_by="token")), ["training.forced_by"]),
    ("translate", dict(training=dict(forced_by="token", teacher_forcing=0.5)), []),
    ("translate", dict(training=dict(forced_by="token", teacher_forcing_end=0.5)), []),
    (
        "translate",
        dict(training=dict(forced_by="token", teacher_forcing=0.0)),
        ["training.forced_by"],
    ),
    ("translate", dict(training=dict(epochs=3, updates=5)), ["training.epochs"]),
    ("translate", dict(training=dict(epochs=3)), []),
    ("translate", dict(training=dict(label_smoothing=0.1)), []),
    ("classify", dict(training=dict(label_smoothing=0.1)), []),
    ("number", dict(training=dict(label_smoothing=0.1)), ["training.label_smoothing"]),
    ("classify", dict(training=dict(forced_by="token")), ["training.forced_by"]),
    ("caption", dict(training=dict(forced_by="token")), ["training.forced_by"]),
    ("translate", dict(search=dict(coverage_penalty=0.2)), ["search.coverage_penalty"]),
    ("translate", dict(search=dict(early_stopping=False)), ["search.early_stopping"]),
    ("translate", dict(search=dict(early_stopping=False, coverage_penalty=0.2, beam=2)), []),
    ("translate", dict(search=dict(length_penalty=0.6)), []),
    ("translate", dict(search=dict(max_ratio=2.0, max_length=9)), ["search.max_ratio"]),
    ("classify", dict(search=dict(beam=4)), ["search.beam"]),
    ("number", dict(search=dict(beam=4, min_length=3)), ["search.beam", "search.min_length"]),
    ("translate", dict(data=dict(generated_size=9)), ["data.generated_size"]),
    ("translate", dict(data=dict(generated_size=9, generated="copy")), []),
    ("translate", dict(data=dict(dev_size=9, dev_path=Path("x"))), ["data.dev_size"]),
    ("classify", dict(data=dict(test_size=9, test_path=Path("x"))), ["data.test_size"]),
    ("caption", dict(data=dict(dev_size=9, dev_list=Path("x"))), ["data.dev_size"]),
    ("classify", dict(data=dict(source="series", tokenizer="characters")), ["data.tokenizer"]),
    ("classify", dict(data=dict(source="series", min_count=2)), ["data.min_count"]),
    ("classify", dict(data=dict(source="series", lowercase=True)), ["data.lowercase"]),
    ("classify", dict(data=dict(standardise=False)), ["data.standardise"]),
    ("number", dict(data=dict(answer="number", standardise=False)), []),
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
        min_length=1,
        max_length=5,
        max_source=7,
        max_ratio=2.0,
        early_stopping=False,
        unknown_replacement=True,
        lexicon=Path("x"),
        precision="bfloat16",
    )
    experiment = replace(DATA["classify"], search=search)
    assert {unused.name for unused in unused_fields(experiment)} == set(ALL_SEARCH)


@pytest.mark.parametrize("task", ["translate", "classify"])
def test_every_field_of_training_changes_the_settings_or_is_named(task):
    """Settings of training are records, equal only if all of them are."""
    first = _settings(DATA[task], TrainingConfig())
    for name, value in variants(TrainingConfig()):
        if name in ("initial_run", "freeze", "device", "metric", "epochs"):
            continue  # read by `prepare`, by keep_fixed, device_of and measure_of
        training = replace(TrainingConfig(), **{name: value})
        named = {unused.name for unused in unused_fields(replace(DATA[task], training=training))}
        if f"training.{name}" not in named and not (task == "classify" and name in OF_TEXTS):
            assert _settings(DATA[task], training) != first, name


OF_TEXTS = ("loss", "teacher_forcing", "teacher_forcing_end")
"""Refused for classifiers."""


def _settings(experiment, training):
    if isinstance(experiment.data, AnswerDataConfig):
        objective = ClassObjective(training.label_smoothing)
    else:
        objective = objective_of(training)
    precision = "float32" if training.precision == "float32" else "bfloat16"
    return settings_of(training, objective, precision)


@pytest.mark.parametrize("name", recipes.names())
def test_no_recipe_sets_a_field_in_vain(name):
    assert unused_fields(recipes.load(recipes.find(name))) == ()
