"""Labels in two forms of Unicode and characters that cannot be seen, in every command."""

from __future__ import annotations

import json
import random
import unicodedata
import warnings

import pandas
import pytest

import regard as package
from regard.config import SearchConfig
from regard.serving.api.limits import Limits
from regard.serving.api.verbs import VERBS, Settings
from regard.serving.batches.operations import operations_of
from tests.cli.test_commands import regard
from tests.messages import check_message

LABELS = {"café": "cup", "señal": "sign"}
NFD = {label: unicodedata.normalize("NFD", label) for label in LABELS}
TINY = {
    "model.size": 16,
    "training.epochs": 8,
    "training.learning_rate": 0.02,
    "training.warmup": 0,
}
OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]


def rows():
    """Return texts whose word decides the label, with each label in both forms."""
    draw = random.Random(3)
    for number in range(200):
        label, word = draw.choice(list(LABELS.items()))
        yield f"{word} {number % 17} x", draw.choice([label, NFD[label]])


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    lines = [f"{text}\t{label}" for text, label in rows()]
    lines[4] = lines[4].replace("x", "x\xad")
    lines[9] = lines[9].replace("x", "\u200bx")
    (folder / "data.tsv").write_text("\n".join(lines) + "\n\u200b\tcafé\n", encoding="utf8")
    return folder / "data.tsv"


@pytest.fixture(scope="module")
def run(labelled):
    from regard.cli import main

    folder = labelled.parent / "run"
    assert main.run(["train", str(labelled), *OPTIONS, "-o", str(folder)]) == 0
    return folder


def test_check_counts_labels_in_one_form_and_names_invisible_characters(labelled, capsys):
    status, out, _ = regard(capsys, "check", labelled)
    assert status == 0
    check_message(out)


def test_a_run_has_each_label_once_and_is_scored_in_either_form(run, labelled, capsys):
    assert json.loads((run / "targets.json").read_text())["targets"]["names"] == ["café", "señal"]
    test = labelled.parent / "test.csv"
    lines = [f"{word} 3 x,{form[label]}" for label, word in LABELS.items() for form in (NFD,)] * 3
    test.write_text("text,label\n" + "\n".join([*lines, f"cup\xad sign,{NFD['café']}"]), "utf8")
    status, out, _ = regard(capsys, "evaluate", run, test, "--examples", 7)
    assert status == 0
    assert "macro F1" in out
    assert "count as wrong" not in out
    assert "Source:    cup\\u00ad sign" in out
    assert "\xad" not in out


def test_a_blank_line_of_invisible_characters_has_a_blank_prediction(run, tmp_path, capsys):
    texts = ["cup 1 x", "\u200b \u2060", "\xad", "\u200d"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf8")
    status, out, _ = regard(capsys, "classify", run, tmp_path / "texts.txt")
    assert (status, out.splitlines()) == (0, ["café", "", "", ""])
    model = package.load(run)
    assert [each.text for each in model.classify(texts)] == ["café", "", "", ""]
    operation = operations_of(model, 1000)["classify"]
    assert operation.lengths(texts, Settings(SearchConfig()))[1:] == [0, 0, 0]
    settings = VERBS["classify"].read({"texts": texts}, model.experiment.search, Limits())[1]
    assert json.loads(operation.run(texts, settings)[1])["text"] == ""


def test_data_in_memory_is_treated_as_a_file(tmp_path):
    frame = pandas.DataFrame([*rows(), ("\u200b", "café"), *[("cup\xad", "Café")] * 4])
    frame.columns = ["text", "label"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = package.train(frame, settings=TINY)
    messages = [str(each.message) for each in caught]
    assert model.labels == ("Café", "café", "señal")
    assert any("invisible characters in 4 of 204 pairs of the data" in text for text in messages)
    assert any("1 with a blank side (line 201)" in text for text in messages)
    assert any("labels that differ only in case" in text for text in messages)
    texts, labels = zip(*rows(), strict=True)
    estimator = package.Classifier(settings=TINY).fit(texts, labels)
    assert estimator.classes_.tolist() == ["café", "señal"]
    assert estimator.score(texts, labels) == 1.0
