"""Data with several labels for a text: training stops, and names what to do."""

from __future__ import annotations

import csv
import json
import random

import pandas
import pytest

import regard as package
from regard.errors import UserError
from tests.cli.test_commands import regard
from tests.messages import check_message

WORDS = ["ox", "elm", "jar", "sky", "run", "tea", "cup", "hat", "pen", "map"]
NAMES = ("film", "news", "sport")


def rows():
    draw = random.Random(5)
    for _ in range(300):
        yield " ".join(draw.choices(WORDS, k=7)), draw.sample(NAMES, draw.choice([1, 1, 2]))


def written(path, form):
    """Write a file whose labels have this form."""
    if path.suffix == ".txt":
        path.write_text("\n".join(f"{form(names)} {text}" for text, names in rows()))
    elif path.suffix == ".jsonl":
        lines = (json.dumps({"text": text, "label": form(names)}) for text, names in rows())
        path.write_text("\n".join(lines))
    else:
        with path.open("w", newline="") as file:
            lines = ((text, form(names)) for text, names in rows())
            csv.writer(file).writerows([("text", "label"), *lines])
    return path


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("marks.txt", lambda names: " ".join(f"__label__{name}" for name in names)),
        ("bars.csv", "|".join),
        ("commas.csv", ", ".join),
        ("lists.csv", json.dumps),
        ("tags.csv", lambda names: "".join(f"<{name}>" for name in names)),
        ("lists.jsonl", list),
        ("ids.jsonl", lambda names: [NAMES.index(name) for name in names]),
    ],
)
def test_several_labels_stop_the_training(tmp_path, monkeypatch, capsys, name, form):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / name, form)
    status, out, _ = regard(capsys, "check", name)
    assert status == 1
    assert "training would stop: " in out
    status, _, err = regard(capsys, "train", name, "--model.size", 16)
    assert status == 1
    (line,) = err.splitlines()
    assert "several labels (lines " in line
    check_message(line)
    assert line.endswith("to train anyway: --data.checks warn")
    assert not (tmp_path / "runs").exists()
    with pytest.raises(UserError, match="several labels"):
        package.train(tmp_path / name)


@pytest.mark.parametrize("form", [list, tuple, "|".join])
def test_data_in_memory_with_several_labels_stop_the_training(form):
    frame = pandas.DataFrame({"text": text, "label": form(names)} for text, names in rows())
    with pytest.raises(UserError, match="several labels"):
        package.train(frame)


def test_lines_with_several_marks_can_be_left_out(tmp_path, capsys):
    path = written(tmp_path / "marks.txt", lambda names: " ".join(f"__label__{n}" for n in names))
    options = ["--data.checks", "warn", "--model.size", 16, "--training.epochs", 1]
    status, out, _ = regard(capsys, "train", path, *options, "-o", tmp_path / "run")
    assert status == 0
    assert "with several labels (lines" in out
    assert "3 labels" in out
    pieces = (tmp_path / "run" / "source.tokenizer.json").read_text()
    assert "label" not in json.loads(pieces)["tokenizer"]["model"]["vocab"]
