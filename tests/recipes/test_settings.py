"""Settings of a program: fields of an experiment by full name, checked as a recipe's fields are."""

from pathlib import Path

import pytest

from regard import recipes
from regard.config import ClassificationDataConfig, Experiment, TransformerEncoderConfig
from regard.errors import UserError
from tests.messages import raises


def test_settings_replace_fields_by_full_name_or_by_section():
    experiment = recipes.load(recipes.find("letters"))
    changed = recipes.with_settings(
        experiment,
        {
            "training.epochs": 3,
            "data.path": Path("a.tsv"),
            "training.patience": None,
            "data": {"lowercase": True},
        },
    )
    assert (changed.training.epochs, changed.training.patience) == (3, None)
    assert (changed.data.path, changed.data.lowercase) == (Path("a.tsv"), True)
    assert changed.model == experiment.model
    assert recipes.with_settings(experiment, {}) == experiment


def test_a_kind_brings_its_default_values_and_a_task_its_sections():
    changed = recipes.with_settings(
        Experiment(), {"model.encoder.layers": 5, "model.encoder.kind": "transformer"}
    )
    assert changed.model.encoder == TransformerEncoderConfig(layers=5)
    labels = recipes.with_settings(Experiment(), {"data.task": "classify", "data.path": "a.csv"})
    assert labels.data == ClassificationDataConfig(path=Path("a.csv"))


@pytest.mark.parametrize(
    "settings",
    [
        {"training.epoch": 3},
        {"epochs": 3},
        {"training.epochs": "many"},
        {"training.epochs": True},
        {"training.epochs.x": 1, "training.epochs": 1},
        {"training.epochs": 1, "training.epochs.x": 1},
        {"data.source_language": 3},
        {"data.task": "clasify"},
        {"model.encoder.kind": "gru"},
        {"training": 3},
        {"training.epochs": {}},
        {"training.epochs": 10**5000},
        {"training.epochs": 1, "training": {"epochs": 2}},
        {"training": {"epoch": {}}},
        {"model.encoder.kind": {}},
    ],
)
def test_an_invalid_setting_is_named(settings):
    with raises(UserError):
        recipes.with_settings(Experiment(), settings)
