"""What no experiment can mean is refused with the name of its field."""

import itertools
import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import pytest

from regard.config import (
    FAMILIES,
    FITTING,
    TASKS,
    AnswerDataConfig,
    AttentionConfig,
    CaptionDataConfig,
    CaptionerConfig,
    ClassifierConfig,
    DataConfig,
    Experiment,
    RecurrentConfig,
    SearchConfig,
    TrainingConfig,
    TransformerConfig,
)
from regard.config.checks import Range, hints_of, shown
from regard.errors import UserError

SECTIONS = [
    ("data", DataConfig),
    ("data", AnswerDataConfig),
    ("data", CaptionDataConfig),
    ("model", RecurrentConfig),
    ("model", TransformerConfig),
    ("model", ClassifierConfig),
    ("model", CaptionerConfig),
    ("model.attention", AttentionConfig),
    ("training", TrainingConfig),
    ("search", SearchConfig),
]


def numbers(record):
    """The fields of a record that hold one number, each with its type and its range, if any."""
    for name, hint in hints_of(record).items():
        members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        for member in members:
            kind = get_args(member)[0] if get_origin(member) is Annotated else member
            if kind in (int, float):
                yield name, kind, getattr(member, "__metadata__", (None,))[0]


NUMBERS = [(section, record, *number) for section, record in SECTIONS for number in numbers(record)]


@pytest.mark.parametrize(("section", "record", "name", "kind", "limits"), NUMBERS)
def test_every_number_has_its_range(section, record, name, kind, limits):
    assert isinstance(limits, Range)
    beyond = (-1.0, math.inf, math.nan) if kind is float else (-1, limits.most + 1, 2**63, 2**70)
    for value in beyond:
        with pytest.raises(UserError) as caught:
            record(**{name: value})
        assert str(caught.value).startswith(f"{section}.{name} is {shown(value)}: expected")
        assert str(limits) in str(caught.value)


def test_there_are_so_many_numbers():
    assert len(NUMBERS) > 80


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "\0"])
def test_paths_and_names_are_text(path):
    with pytest.raises(UserError, match=r"data.path is .*expected text without NUL or lone"):
        DataConfig(path=Path(path))
    with pytest.raises(UserError, match=r"data.source_language is .*expected text without NUL"):
        DataConfig(source_language=path)


def test_a_number_too_long_to_print_is_named():
    with pytest.raises(UserError, match=r"search.beam is a number of thousands of digits"):
        SearchConfig(beam=10**5000)


@pytest.mark.parametrize(
    ("section", "given"),
    [
        ("model", dict(hidden=0)),
        ("model", dict(dropout=2.0)),
        ("model.attention", dict(temperature=0.0)),
        ("training", dict(epochs=0)),
        ("training", dict(learning_rate=0.0)),
        ("training", dict(label_smoothing=1.5)),
        ("training", dict(adam_betas=(0.9, 1.0))),
        ("search", dict(beam=0)),
        ("search", dict(min_length=5, max_length=4)),
        ("search", dict(length_penalty=-0.5)),
    ],
)
def test_the_edges(section, given):
    with pytest.raises(UserError, match=rf"^{section}\.{next(iter(given))} is"):
        next(record for name, record in SECTIONS if name == section)(**given)


def test_one_embedding_for_both_sides_needs_one_vocabulary():
    model = RecurrentConfig(tied="all")
    with pytest.raises(UserError, match=r"model.tied all .* set data.shared_vocabulary"):
        Experiment(model=model)
    Experiment(model=model, data=DataConfig(shared_vocabulary=True))
    Experiment(model=model, data=DataConfig(vocabulary=("a", "b")))


@pytest.mark.parametrize("one", [dict(shared_vocabulary=True), dict(vocabulary=("a", "b"))])
def test_one_vocabulary_has_one_tokenizer(one):
    with pytest.raises(UserError, match=r"data.target_tokenizer is characters, but .*, words"):
        DataConfig(target_tokenizer="characters", **one)
    DataConfig(target_tokenizer="words", **one)
    DataConfig(target_tokenizer="characters")


def test_every_section_is_looked_at():
    sections = {field.name for field in fields(Experiment) if is_dataclass(field.default_factory)}
    assert sections == {name.split(".")[0] for name, _ in SECTIONS}
    assert {record for name, record in SECTIONS if name == "model"} == set(FAMILIES.values())
    assert {record for name, record in SECTIONS if name == "data"} == set(TASKS.values())


def test_every_family_is_found_by_its_name_and_fits_one_task():
    assert {name: record.family for name, record in FAMILIES.items()} == {n: n for n in FAMILIES}
    assert {name: record.task for name, record in TASKS.items()} == {n: n for n in TASKS}
    assert sorted(sum(FITTING.values(), ())) == sorted(FAMILIES)
    assert FITTING.keys() == TASKS.keys()


@pytest.mark.parametrize(("task", "family"), list(itertools.product(TASKS, FAMILIES)))
def test_data_and_models_fit_or_are_named(task, family):
    sections = dict(data=TASKS[task](), model=FAMILIES[family]())
    if family in FITTING[task]:
        Experiment(**sections)
        return
    with pytest.raises(UserError, match=rf"model.family {family} is no model for data.task {task}"):
        Experiment(**sections)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(heads=5), r"model.heads is 5: expected a number that divides model.size, .* 256"),
        (dict(size=12, heads=4, positions="rotary"), r"each of the 4 heads has 3"),
        (dict(dropout=2.0), "model.dropout is 2.0: expected a number from 0 to 1"),
    ],
)
def test_heads_fit(given, words):
    with pytest.raises(UserError, match=words):
        TransformerConfig(**given)
    with pytest.raises(UserError, match=r"divides model.embedding, which is 10"):
        ClassifierConfig(encoder="transformer", embedding=10, heads=4)


def test_learned_positions_are_as_many_as_the_longest_pair_needs():
    model = TransformerConfig(positions="learned", longest=100)
    with pytest.raises(UserError, match=r"data.max_length is 200, but model.longest is 100"):
        Experiment(model=model)
    Experiment(model=model, data=DataConfig(max_length=100))
    Experiment(model=TransformerConfig(longest=100))


@pytest.mark.parametrize(
    ("config", "unused"),
    [
        (RecurrentConfig(wiring="plain", attention=AttentionConfig(score="dot")), ("attention",)),
        (RecurrentConfig(attention=AttentionConfig(score="dot")), ()),
        (ClassifierConfig(window=3, heads=2), ("heads", "window")),
        (ClassifierConfig(encoder="transformer", window=3, cell="gru"), ("cell",)),
        (ClassifierConfig(encoder="embedding", layers=2, pool="mean"), ("layers",)),
        (ClassifierConfig(pool="last", query="last"), ("query",)),
        (CaptionerConfig(reward=2.0, layers=3), ("reward", "layers")),
        (CaptionerConfig(looks="hard", reward=2.0, doubly_stochastic=0.0), ("doubly_stochastic",)),
        (CaptionerConfig(decoder="transformer", gate=False, layers=3), ("gate",)),
        (CaptionerConfig(backbone_learns=True), ("backbone_learns",)),
        (CaptionerConfig(backbone="some", backbone_learns=True), ()),
    ],
    ids=repr,
)
def test_what_is_set_in_vain_is_known(config, unused):
    assert config.unused == unused


def test_beams_and_lengths_have_a_bound_together():
    SearchConfig(beam=1000, max_length=1000)
    SearchConfig(max_length=1_000_000)
    with pytest.raises(UserError, match=r"search\.beam is 1,000 and an output may have 1,001 tok"):
        SearchConfig(beam=1000, max_length=1001)
