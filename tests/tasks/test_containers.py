"""Containers of NumPy, pandas, polars and Python as arguments of public calls."""

from dataclasses import dataclass

import numpy as np
import pandas
import polars
import pytest

import regard
from regard.config.checks import Size, Weight, check_fields, without_numpy
from regard.data.files.objects import table_of
from regard.errors import UserError
from regard.tasks.arguments import check_pairs, check_texts, search_of
from tests.messages import raises
from tests.small_runs import RUNS

TEXTS = ["a b", "c", "d d"]
PAIRS = [("a b", "b a"), ("c", "c"), ("d d", "d")]
FRAME = {"source": [source for source, _ in PAIRS], "target": [target for _, target in PAIRS]}
CONTAINERS = [
    list,
    tuple,
    iter,
    np.array,
    lambda texts: np.array(texts, dtype=object),
    lambda texts: map(np.str_, texts),
    lambda texts: (text for text in texts),
    dict.fromkeys,
    lambda texts: dict.fromkeys(texts).keys(),
    lambda texts: dict(enumerate(texts)).values(),
    pandas.Series,
    lambda texts: pandas.Series(texts, index=[7, 5, 3]),
    lambda texts: pandas.Series(texts, dtype="category"),
    pandas.Index,
    lambda texts: pandas.DataFrame({"text": texts}),
    polars.Series,
    lambda texts: polars.DataFrame({"text": texts}),
]
WITHOUT_ORDER = [set, frozenset]


@pytest.mark.parametrize("make", CONTAINERS)
def test_texts_are_taken_from_every_container(make):
    texts = check_texts("text", make(TEXTS))
    assert texts == TEXTS
    assert {type(text) for text in texts} == {str}


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        [list(pair) for pair in PAIRS],
        iter(PAIRS),
        zip(*zip(*PAIRS, strict=True), strict=True),
        np.array(PAIRS),
        [np.array(pair) for pair in PAIRS],
        pandas.DataFrame(FRAME),
        pandas.DataFrame(PAIRS, columns=["en", "de"]),
        pandas.DataFrame({"n": [1, 2, 3], "target": FRAME["target"], "source": FRAME["source"]}),
        pandas.DataFrame(PAIRS),
        polars.DataFrame(FRAME),
        pandas.DataFrame(FRAME).itertuples(index=False),
        polars.DataFrame(FRAME).iter_rows(),
        dict(PAIRS).items(),
        [{"source": source, "target": target} for source, target in PAIRS],
    ],
)
def test_pairs_are_taken_from_every_container(pairs):
    assert check_pairs(pairs) == PAIRS


@pytest.mark.parametrize("make", WITHOUT_ORDER)
def test_containers_without_an_order_are_refused(make):
    words = "has no order: make it a list"
    with pytest.raises(TypeError, match=words):
        check_texts("text", make(TEXTS))
    with pytest.raises(TypeError, match=words):
        check_pairs(make(PAIRS))
    with pytest.raises(TypeError, match="data is "):
        table_of(make(PAIRS))
    for wrong in ([*PAIRS, {"a", "b"}], dict(PAIRS)):
        with pytest.raises(TypeError, match="expected a pair of str"):
            check_pairs(wrong)
    assert len(table_of(dict(PAIRS).items()).rows) == len(PAIRS)


def test_other_containers_are_refused():
    for wrong in (np.array("a"), pandas.DataFrame(FRAME), np.array([["a"]]), pandas.Series([None])):
        with pytest.raises(TypeError, match="expected"):
            check_texts("text", wrong)
    for wrong in ({"text": "a b"}, {"text": TEXTS}):  # its names are no texts
        with raises(TypeError):
            check_texts("text", wrong)
    frame = pandas.DataFrame({"a": ["x"], "b": ["y"], "c": ["z"]})
    with raises(TypeError):
        check_pairs(frame)


def test_every_call_takes_numbers_of_numpy():
    model, classifier = regard.load(RUNS / "bahdanau"), regard.load(RUNS / "classifier")
    plain = model.translate(TEXTS, beam=3, num_best=2)
    assert model.translate(np.array(TEXTS), beam=np.int64(3), num_best=np.int32(2)) == plain
    assert model.translate(np.str_("a b")).text == model.translate("a b").text
    assert type(model.translate(np.str_("a b")).source) is str
    assert classifier.classify(pandas.Series(TEXTS)) == classifier.classify(TEXTS)
    assert model.score(pandas.DataFrame(FRAME)) == model.score(PAIRS)
    for wrong in (True, 2.0, np.float64(2), np.bool_(True), "2"):
        with pytest.raises(TypeError, match="expected a whole number"):
            search_of(model.experiment, None, wrong)


@dataclass(frozen=True)
class Record:
    """Fields of a configuration."""

    number: Size
    sizes: tuple[Size, ...]
    weight: Weight


def test_fields_of_configurations_are_numbers_of_python():
    record = Record(np.int16(3), (np.int64(4), 5), np.float32(0.5))
    check_fields("search", record)
    assert repr(record) == "Record(number=3, sizes=(4, 5), weight=0.5)"
    with pytest.raises(UserError, match=r"search.number is 2.0: expected a whole number"):
        check_fields("search", Record(np.float64(2), (), 1.0))


def test_settings_have_numbers_of_numpy():
    assert without_numpy((np.int64(1), 2)) == (1, 2)
    settings = {
        "training.epochs": np.int64(1),
        "model.size": np.int32(8),
        "training.patience": None,
    }
    settings |= {
        "training.average": None,
        "data.dev_size": np.int64(2),
        "training.learning_rate": np.float32(0.5),
    }
    pairs = np.array([(f"a {n}", f"b {n}") for n in range(9)])
    with pytest.warns(UserWarning, match="expect the training data to be memorised"):
        model = regard.train(pairs, "letters", settings=settings)
    assert model.experiment.training.learning_rate == 0.5
    assert type(model.experiment.training.epochs) is int
