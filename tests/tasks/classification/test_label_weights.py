"""Weights of labels: their values, their options, and what they change on unbalanced data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import regard
from regard import recipes
from regard.config import ClassificationDataConfig, Experiment, TrainingConfig
from regard.config.unused import unused_fields
from regard.data.labels.targets import Labels
from regard.errors import UserError
from regard.metrics.classification import macro_f1
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.tasks.classification.label_weights import label_weights_of
from tests import configs
from tests.messages import check_message, raises

LABELS = Labels(("a:b", "café", "x"))
NUMBERS = np.array([0] * 1 + [1] * 3 + [2] * 8)
FIELD = "training.label_weights"


def weights(*entries):
    return label_weights_of(entries or None, LABELS, NUMBERS)


def test_balanced_weights_are_those_of_the_formula():
    assert weights("balanced") == pytest.approx((12 / 3, 12 / 9, 12 / 24))
    assert np.mean(np.array(weights("balanced"))[NUMBERS]) == pytest.approx(1)
    assert weights() == ()


def test_labels_without_a_weight_have_1():
    assert weights("cafe\u0301:2.5", "a:b:3") == (3.0, 2.5, 1.0)


@pytest.mark.parametrize(
    "entries",
    [
        ("y:2",),
        ("x:-1",),
        ("x:0",),
        ("x:nan",),
        ("x:inf",),
        ("x:two",),
        ("balanced", "x:2"),
        ("x:2", "x:3"),
    ],
)
def test_wrong_weights_are_one_line(entries):
    with pytest.raises(UserError) as error:
        weights(*entries)
    assert str(error.value).startswith(FIELD)
    check_message(str(error.value))
    assert "\n" not in str(error.value)


def test_weights_are_a_list_or_a_map_in_recipes_and_in_python(tmp_path):
    recipe = recipes.load(recipes.find("labels"))
    path = tmp_path / "own.yaml"
    for value in ("[spam:4, a.b:0.5]", "{spam: 4, a.b: 0.5}"):
        path.write_text(f"data: {{task: classify}}\ntraining:\n  label_weights: {value}\n")
        loaded = recipes.load(path)
        assert loaded.training.label_weights == ("spam:4", "a.b:0.5")
        path.write_text(recipes.dump(loaded))
        assert recipes.load(path).training.label_weights == ("spam:4", "a.b:0.5")
    path.write_text("data: {task: classify}\ntraining:\n  label_weights: {spam: -4}\n")
    with raises(UserError, "line 3"):
        recipes.load(path)
    for value in ({"spam": 4, "a.b": 0.5}, ["spam:4", "a.b:0.5"]):
        changed = recipes.with_settings(recipe, {FIELD: value})
        assert changed.training.label_weights == ("spam:4", "a.b:0.5")
    changed = recipes.with_settings(recipe, {FIELD: "balanced"})
    assert changed.training.label_weights == ("balanced",)


def test_weights_have_no_effect_on_other_targets():
    training = TrainingConfig(label_weights=("balanced",))
    for recipe in ("values", "letters"):
        experiment = replace(recipes.load(recipes.find(recipe)), training=training)
        assert FIELD in {field.name for field in unused_fields(experiment)}
    experiment = replace(recipes.load(recipes.find("labels")), training=training)
    assert FIELD not in {field.name for field in unused_fields(experiment)}


@pytest.fixture(scope="module")
def unbalanced(tmp_path_factory):
    """Requests, 95 per cent of one label; a word decides."""
    path = tmp_path_factory.mktemp("unbalanced") / "requests.tsv"
    usual, rare = ("came", "sold", "blue", "here"), ("broken", "torn")
    lines = []
    for number in range(400):
        is_rare = number % 20 == 0
        word = rare[number // 20 % 2] if is_rare else usual[number % 4]
        label = "complaint" if is_rare else "other"
        lines.append(f"item{number % 7} {word} day{number % 5}\t{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def few_updates(path, seed, label_weights):
    return Experiment(
        name="requests",
        data=ClassificationDataConfig(
            path=path, target="label", dev_size=60, test_size=100, batch_sentences=20, seed=seed
        ),
        model=configs.classifier("bag_of_words", head="mean", size=16, dropout=0.0),
        training=TrainingConfig(
            updates=30,
            learning_rate=0.01,
            label_weights=label_weights,
            metric="macro_f1",
            device="cpu",
            seed=seed,
        ),
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_balanced_weights_find_the_rare_label_that_equal_weights_do_not(seed, unbalanced, tmp_path):
    scores = {}
    for name, label_weights in (("equal", None), ("balanced", ("balanced",))):
        train(few_updates(unbalanced, seed, label_weights), tmp_path / name)
        classifier = regard.load(tmp_path / name)
        pairs = [line.split("\t") for line in RunFolder(tmp_path / name).test.open()]
        outputs = classifier.classify([text for text, _ in pairs], attention=False)
        predictions, targets = [each.text for each in outputs], [each.strip() for _, each in pairs]
        scores[name] = macro_f1(predictions, targets).value
        assert "complaint" in targets
        assert (set(predictions) == {"other"}) is (name == "equal")
    assert scores["equal"] < 50 < 60 < scores["balanced"]
