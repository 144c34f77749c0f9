"""Units of target numbers: those of the training are compared with those of other files."""

from __future__ import annotations

import random

import pytest

from regard.cli import main
from regard.data.labels.targets import from_json
from tests.cli.test_commands import regard
from tests.messages import check_message

OPTIONS = ("--model.size", "8", "--training.updates", "2", "--training.patience", "None")
WORDS = ["river", "stone", "cat", "dog", "blue"]
WITHOUT = "without conversion"


def table(path, form):
    """Write a table of texts with prices of this form, such as ${}."""
    draw = random.Random(1)
    rows = (
        f"{' '.join(draw.choices(WORDS, k=4))} {n},{form.format(n + 0.5)}\n" for n in range(1, 61)
    )
    path.write_text(f"text,price\n{''.join(rows)}")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on prices in dollars and on prices without a unit."""
    folder = tmp_path_factory.mktemp("runs")
    for name, form in (("dollars", "${}"), ("plain", "{}")):
        data = str(table(folder / f"{name}.csv", form))
        assert main.run(["train", data, *OPTIONS, "-o", str(folder / name)]) == 0
    return folder


@pytest.mark.parametrize("form", ["€{}", "{} EUR", "£{}", "{} %", "{} kg"])
def test_another_unit_than_that_of_the_training_stops_the_evaluation(runs, tmp_path, capsys, form):
    path = table(tmp_path / "other.csv", form)
    status, _, error = regard(capsys, "evaluate", runs / "dollars", path)
    assert (status, error.count("\n")) == (1, 1)
    assert f"{path}: the target numbers are in " in error
    check_message(error)


@pytest.mark.parametrize(
    ("run", "form", "units"),
    [
        ("dollars", "{}", "without a unit, and those of the training in $"),
        ("plain", "${}", "in $, and those of the training without a unit"),
    ],
)
def test_a_unit_on_one_side_is_reported(runs, tmp_path, capsys, run, form, units):
    path = table(tmp_path / "other.csv", form)
    status, out, error = regard(capsys, "evaluate", runs / run, path)
    assert status == 0
    assert f"{path}: the target numbers are {units}: they are compared {WITHOUT}" in out + error


@pytest.mark.parametrize(
    ("run", "form"), [("dollars", "${}"), ("dollars", "{} USD"), ("plain", "{}")]
)
def test_names_of_one_unit_are_equal(runs, tmp_path, capsys, run, form):
    status, out, error = regard(capsys, "evaluate", runs / run, table(tmp_path / "other.csv", form))
    assert status == 0
    assert WITHOUT not in out + error


def test_held_out_numbers_have_the_unit_of_the_training(runs, capsys):
    status, out, error = regard(capsys, "evaluate", runs / "dollars")
    assert status == 0
    assert WITHOUT not in out + error


def test_dev_numbers_have_the_unit_of_the_training(tmp_path, capsys):
    train, dev = table(tmp_path / "train.csv", "${}"), table(tmp_path / "dev.csv", "€{}")
    options = (*OPTIONS, "--data.dev-path", dev, "-o", tmp_path / "run")
    status, _, error = regard(capsys, "train", train, *options)
    assert status == 1
    check_message(error)


def test_runs_that_know_no_units_are_compared_with_none():
    scale = from_json({"kind": "scale", "means": [0.5], "deviations": [1.0]})
    assert scale.units is None
