"""Inconsistent experiments are rejected with the name of the field."""

import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import pytest

from regard.config import (
    DATA_SECTIONS,
    KINDS,
    MODELS,
    AttentionConfig,
    BackboneEncoderConfig,
    CaptionDataConfig,
    CaptionModelConfig,
    ClassificationDataConfig,
    ClassificationModelConfig,
    ConvolutionalEncoderConfig,
    DataConfig,
    DecoderAttentionConfig,
    Experiment,
    ExpertsConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    SearchConfig,
    TrainingConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    resolve,
)
from regard.config.checks import Range, field_types, format_value, option_of
from regard.errors import UserError
from tests import configs
from tests.messages import raises

NUMERIC = dict(data=ClassificationDataConfig(target="number"), model=ClassificationModelConfig())

PARTS = {
    (part, record)
    for parts in KINDS.values()
    for part, kinds in parts.items()
    for record in kinds.values()
}
SECTIONS = [
    *(("data", record) for record in DATA_SECTIONS.values()),
    *(("model", record) for record in MODELS.values()),
    *sorted(((f"model.{part}", record) for part, record in PARTS), key=str),
    ("attention", AttentionConfig),
    ("attention", DecoderAttentionConfig),
    ("training", TrainingConfig),
    ("search", SearchConfig),
]


def numbers(record):
    """The fields of a record that hold one number, each with its type and its range, if any."""
    for name, hint in field_types(record).items():
        members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        for member in members:
            kind = get_args(member)[0] if get_origin(member) is Annotated else member
            if kind in (int, float):
                yield name, kind, getattr(member, "__metadata__", (None,))[0]


NUMBERS = [(section, record, *number) for section, record in SECTIONS for number in numbers(record)]


@pytest.mark.parametrize(("section", "record", "name", "kind", "limits"), NUMBERS)
def test_every_number_has_its_range(section, record, name, kind, limits):
    assert isinstance(limits, Range)
    beyond = (-1.0, math.inf, math.nan) if kind is float else (-1, limits.maximum + 1, 2**63, 2**70)
    for value in beyond:
        with pytest.raises(UserError) as caught:
            record(**{name: value})
        assert str(caught.value).startswith(f"{section}.{name} is {format_value(value)}: expected")
        assert str(limits) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("model.decoder.gate", False, "--model.decoder.no-gate"),
        ("model.decoder.key_positions", True, "--model.decoder.key-positions"),
        ("resume", False, "--no-resume"),
        ("model.decoder.key_layers", (0, -1), "--model.decoder.key-layers 0 -1"),
        ("model.size", 8, "--model.size 8"),
    ],
)
def test_a_value_is_written_as_an_option(name, value, option):
    assert option_of(name, value) == option


def test_a_dropout_is_less_than_1():
    dropouts = [
        (section, record, name)
        for section, record, name, *_ in NUMBERS
        if name.endswith("dropout") and name != "bpe_dropout"
    ]
    assert len(dropouts) > 10
    for section, record, name in dropouts:
        with pytest.raises(UserError) as caught:
            record(**{name: 1.0})
        expected = f"{section}.{name} is 1.0: expected a number from 0 to less than 1"
        assert str(caught.value).startswith(expected)
        assert getattr(record(**{name: 0.99}), name) == 0.99


def test_the_number_of_checked_fields_is_known():
    assert len(NUMBERS) > 90


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "\0"])
def test_paths_and_names_are_text(path):
    with raises(UserError, "data.path"):
        DataConfig(path=Path(path))
    with raises(UserError, "data.source_language"):
        DataConfig(source_language=path)


def test_a_number_too_long_to_print_is_named():
    with raises(UserError, "search.beam"):
        SearchConfig(beam=10**5000)


@pytest.mark.parametrize(
    ("section", "given"),
    [
        ("model", dict(size=0)),
        ("model", dict(dropout=2.0)),
        ("attention", dict(temperature=0.0)),
        ("training", dict(epochs=0)),
        ("training", dict(learning_rate=0.0)),
        ("training", dict(label_smoothing=1.5)),
        ("training", dict(adam_betas=(0.9, 1.0))),
        ("search", dict(beam=0)),
        ("search", dict(min_length=5, max_length=4)),
        ("search", dict(length_penalty=-0.5)),
    ],
)
def test_limits_of_ranges_are_accepted(section, given):
    with pytest.raises(UserError, match=rf"^{section}\.{next(iter(given))} is"):
        next(record for name, record in SECTIONS if name == section)(**given)


def test_one_embedding_for_both_sides_needs_one_vocabulary():
    model = configs.recurrent(tied="all")
    expected = r"model.tied all .* set --data.shared-vocabulary, or --model.tied output"
    with pytest.raises(UserError, match=expected):
        Experiment(model=model)
    Experiment(model=model, data=DataConfig(shared_vocabulary=True))
    Experiment(model=model, data=DataConfig(vocabulary=("a", "b")))


@pytest.mark.parametrize(
    ("training", "sections"),
    [
        (dict(teacher_forcing=0.5), {}),
        (dict(teacher_forcing_end=0.0), {}),
        ({}, dict(model=configs.recurrent(copy="pointer_generator"))),
        ({}, NUMERIC),
    ],
)
def test_r_drop_needs_two_distributions_of_equal_inputs(training, sections):
    with raises(UserError, "training.r_drop"):
        Experiment(training=TrainingConfig(r_drop=2.0, **training), **sections)
    Experiment(training=TrainingConfig(**training), **sections)


@pytest.mark.parametrize(
    ("training", "sections"),
    [
        (dict(teachers=()), {}),
        (dict(r_drop=1.0), {}),
        (dict(teacher_weight=0.0), {}),
        (dict(teacher_forcing=0.5), {}),
        ({}, dict(model=configs.recurrent(copy="pointer_generator"))),
        ({}, NUMERIC),
    ],
)
def test_distillation_needs_two_distributions_of_equal_inputs(training, sections):
    values = {"objective": "distillation", "teachers": (Path("x"),), **training}
    with raises(UserError):
        Experiment(training=TrainingConfig(**values), **sections)


@pytest.mark.parametrize(
    ("training", "sections"),
    [
        (dict(r_drop=1.0), {}),
        (dict(samples=1), {}),
        (dict(reward="cider"), {}),
        ({}, dict(data=DataConfig(target_end=False))),
        ({}, dict(model=configs.recurrent(copy="pointer_generator"))),
        ({}, dict(data=ClassificationDataConfig(), model=ClassificationModelConfig())),
    ],
)
def test_rewards_need_sampled_texts(training, sections):
    with raises(UserError):
        Experiment(training=TrainingConfig(objective="expected_reward", **training), **sections)


def test_bpe_dropout_needs_merges():
    for kinds in (dict(tokenizer="bpe"), dict(target_tokenizer="bpe"), dict(tokenizers_path="x")):
        named = {name: Path(value) if "path" in name else value for name, value in kinds.items()}
        DataConfig(bpe_dropout=0.1, **named)
    with raises(UserError, "data.bpe_dropout"):
        DataConfig(bpe_dropout=0.1)
    copying = configs.recurrent(copy="pointer_generator")
    with raises(UserError, "model.copy"):
        Experiment(data=DataConfig(tokenizer="bpe", bpe_dropout=0.1), model=copying)


@pytest.mark.parametrize("one", [dict(shared_vocabulary=True), dict(vocabulary=("a", "b"))])
def test_one_vocabulary_has_one_tokenizer(one):
    with raises(UserError, "data.target_tokenizer"):
        DataConfig(target_tokenizer="characters", **one)
    DataConfig(target_tokenizer="words", **one)
    DataConfig(target_tokenizer="characters")


def test_numbers_of_every_section_are_checked():
    sections = {field.name for field in fields(Experiment) if is_dataclass(field.default_factory)}
    assert sections == {name.split(".")[0] for name, _ in SECTIONS} - {"attention"}


def test_every_task_has_data_a_model_and_kinds():
    assert {name: record.task for name, record in DATA_SECTIONS.items()} == {
        n: n for n in DATA_SECTIONS
    }
    assert MODELS.keys() == KINDS.keys() == DATA_SECTIONS.keys()
    for task, model in MODELS.items():
        assert all(record.kind in KINDS[task][part] for part, record in model().parts.items())
        assert model().parts.keys() == KINDS[task].keys()
        for part, kinds in KINDS[task].items():
            assert {name: record.kind for name, record in kinds.items()} == {n: n for n in kinds}
            for record in kinds.values():
                replace(model(), **{part: record()})


@pytest.mark.parametrize("task", DATA_SECTIONS)
@pytest.mark.parametrize("other", MODELS)
def test_inconsistent_data_and_models_are_named(task, other):
    sections = dict(data=DATA_SECTIONS[task](), model=MODELS[other]())
    if task == other:
        Experiment(**sections)
        return
    with pytest.raises(UserError, match=rf"is a \w+, but data.task is {task}: expected a \w+"):
        Experiment(**sections)


@pytest.mark.parametrize(
    "given",
    [
        dict(size=256, heads=5),
        dict(size=12, heads=4, positions="rotary"),
        dict(dropout=2.0),
    ],
)
def test_heads_must_divide_the_size(given):
    for record in (TransformerEncoderConfig, TransformerDecoderConfig):
        with raises(UserError):
            record(**given)


def test_an_inherited_size_must_be_a_multiple_of_the_heads():
    with pytest.raises(UserError, match=r"model.encoder.heads is 4: .* which is 10"):
        configs.classifier("transformer", size=10, heads=4).resolve()


def test_learned_positions_must_cover_the_longest_pair():
    model = configs.transformer(positions="learned", max_positions=100)
    with raises(UserError, "model.encoder.max_positions"):
        Experiment(model=model)
    Experiment(model=model, data=DataConfig(max_length=100))
    Experiment(model=configs.transformer(max_positions=100))
    caption = configs.captioner("transformer", positions="learned", max_positions=50)
    with raises(UserError, "model.decoder.max_positions"):
        Experiment(data=CaptionDataConfig(), model=caption)


def test_parts_inherit_what_they_do_not_set():
    model = configs.recurrent(size=48, dropout=0.25, decoder_size=32).resolve()
    assert (model.encoder.size, model.encoder.embedding, model.encoder.dropout) == (48, 48, 0.25)
    assert (model.decoder.size, model.decoder.embedding, model.decoder.dropout) == (32, 32, 0.25)
    assert model.decoder.attention.size == 32
    model = configs.transformer(size=48, heads=3, attention=dict(score="additive")).resolve()
    assert (model.encoder.size, model.encoder.feed_forward) == (48, 192)
    assert model.encoder.attention.size == model.decoder.attention.size == 16
    model = configs.classifier("bag_of_words", size=48, head_dropout=0.0).resolve()
    assert (model.encoder.size, model.head.attention.size, model.head.dropout) == (48, 48, 0.0)


def test_only_fields_in_use_are_inherited():
    assert configs.recurrent(attention=dict(score="dot")).resolve().decoder.attention.size is None
    assert configs.recurrent(wiring="plain").resolve().decoder.attention == DecoderAttentionConfig()


@pytest.mark.parametrize("task", DATA_SECTIONS)
def test_resolving_twice_changes_nothing(task):
    for part, kinds in KINDS[task].items():
        for kind, record in kinds.items():
            if record is BackboneEncoderConfig:
                continue
            model = replace(MODELS[task](), **{part: record()})
            resolved = resolve(Experiment(data=DATA_SECTIONS[task](), model=model))
            assert resolve(resolved) == resolved, kind


def test_a_backbone_needs_a_name():
    with raises(UserError, "model.encoder.name"):
        CaptionModelConfig(encoder=BackboneEncoderConfig()).resolve()


def test_two_directions_divide_an_even_size():
    with raises(UserError, "model.encoder.size"):
        configs.recurrent(size=7, bidirectional=True).resolve()


def test_blocks_halve_the_image():
    model = CaptionModelConfig(encoder=ConvolutionalEncoderConfig(channels=(3, 3, 3)))
    for side in (60, 8):
        message = rf"data.image_size is {side}, .* expected a multiple of 8 from 16 on"
        with pytest.raises(UserError, match=message):
            Experiment(data=CaptionDataConfig(image_size=side), model=model)


def test_items_need_an_encoder_without_order():
    items = ClassificationDataConfig(source="items")
    with raises(UserError, "model.encoder.kind"):
        Experiment(data=items, model=ClassificationModelConfig())


@pytest.mark.parametrize(
    ("part", "unused"),
    [
        (
            RecurrentDecoderConfig(wiring="plain", attention=DecoderAttentionConfig(score="dot")),
            {"attention"},
        ),
        (RecurrentDecoderConfig(attention=DecoderAttentionConfig(score="dot")), set()),
        (
            RecurrentDecoderConfig(attention=DecoderAttentionConfig(score="dot", size=3)),
            {"attention.size"},
        ),
        (RecurrentDecoderConfig(query="first_layer"), {"query"}),
        (RecurrentDecoderConfig(query="first_layer", layers=2), set()),
        (
            RecurrentDecoderConfig(
                attention=DecoderAttentionConfig(window=3, expected=0.0, reward=1.0, discount=1.0)
            ),
            {f"attention.{name}" for name in ("window", "expected", "reward", "discount")},
        ),
        (RecurrentEncoderConfig(), set()),
        (TransformerEncoderConfig(max_positions=99), {"max_positions"}),
        (TransformerEncoderConfig(attention=AttentionConfig("dot", size=3)), {"attention.size"}),
    ],
    ids=lambda value: repr(sorted(value) if isinstance(value, set) else value),
)
def test_fields_without_effect_are_known(part, unused):
    assert {name for name, _ in part.unused} == unused


def test_beam_times_length_is_limited():
    SearchConfig(beam=1000, max_length=1000)
    SearchConfig(max_length=1_000_000)
    with raises(UserError, "search.beam"):
        SearchConfig(beam=1000, max_length=1001)


@pytest.mark.parametrize("part", [TransformerEncoderConfig, TransformerDecoderConfig])
def test_more_active_experts_than_experts_name_their_part(part):
    place = f"model.{'encoder' if part is TransformerEncoderConfig else 'decoder'}.experts"
    with pytest.raises(UserError, match=f"^{place}.active is 2, but {place}.number is 1: expected"):
        part(experts=ExpertsConfig(number=1))
