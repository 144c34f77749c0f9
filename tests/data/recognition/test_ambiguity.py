"""Choices of columns that stop a training: several label columns, and columns that decide which of
several targets a source has."""

from __future__ import annotations

import csv
import random
import warnings
from itertools import product

import pandas
import pytest

import regard as package
from regard.data.files.tables import TableSettings
from regard.data.recognition.inspection import inspect
from regard.errors import UserError
from tests.cli.test_commands import regard

DRAW = random.Random(7)
SYLLABLES = ["ba", "ko", "ti", "lu", "me", "ra", "no", "si", "du", "fe"]
ENDINGS = {"V;PST": "ed", "V;PRS;3;SG": "s", "V;PTCP": "ing", "V;NFIN": ""}


def word():
    return "".join(DRAW.choices(SYLLABLES, k=DRAW.choice([2, 2, 3, 3, 4, 5])))


LEMMAS = list(dict.fromkeys(word() for _ in range(200)))
TEXTS = [" ".join(word() for _ in range(6)) for _ in range(200)]


def reference(text):
    return " ".join(each[::-1] for each in text.split()[:-1]) + f" {word()}"


def shuffled(rows):
    rows = list(rows)
    DRAW.shuffle(rows)
    return rows


DECIDED = {
    "features of a form": (
        None,
        shuffled((lemma, lemma + end, tags) for lemma in LEMMAS for tags, end in ENDINGS.items()),
        ["3"],
    ),
    "many bundles of features": (
        None,
        [
            (lemma, f"{lemma}{word()}", f"V;{mood};{tense};{DRAW.randint(1, 3)};{number}")
            for lemma in LEMMAS[:150]
            for mood, tense, number in DRAW.sample(
                list(product(["IND", "SBJV", "COND"], ["PRS", "PST", "FUT"], ["SG", "PL"])), 2
            )
        ],
        ["3"],
    ),
    "case and number": (
        ("lemma", "form", "case", "number"),
        [
            (lemma, f"{lemma}{'aei'[n]}{'mn'[m]}", ["nom", "gen", "dat"][n], ["sg", "pl"][m])
            for lemma in LEMMAS
            for n in range(3)
            for m in range(2)
        ],
        ["case", "number"],
    ),
    "language": (
        ("source", "target", "language"),
        [
            (lemma, lemma[::-1] + end, name)
            for lemma in LEMMAS
            for name, end in {"de": "chen", "fr": "eau", "it": "ino"}.items()
        ],
        ["language"],
    ),
    "part of speech": (
        ("word", "pronunciation", "pos"),
        [
            (lemma, " ".join(lemma.upper() if tag == "N" or n % 6 else lemma), tag)
            for n, lemma in enumerate(LEMMAS)
            for tag in ("N", "V")
        ],
        ["pos"],
    ),
    "speaker": (
        None,
        [
            (lemma, lemma + end, name)
            for lemma in LEMMAS
            for name, end in (("ann", "a"), ("bob", ""))
        ],
        ["3"],
    ),
    "aspect of an opinion": (
        ("sentence", "aspect", "polarity"),
        [
            (text, aspect, DRAW.choice(["positive", "negative", "neutral"]))
            for text in TEXTS
            for aspect in DRAW.sample(["food", "service", "price"], 2)
        ],
        ["aspect"],
    ),
}
USERS = [word() for _ in range(60)]
REFERENCES = {
    "numbers of rows": ("id", lambda n, k: str(n * 3 + k)),
    "numbers of references": ("reference", lambda n, k: str(k)),
    "dates": ("date", lambda n, k: f"2024-0{1 + n * k % 9}-1{k}"),
    "many users": ("name", lambda n, k: DRAW.choice(USERS)),
    "annotators": ("annotator", lambda n, k: "ABC"[k]),
    "licences": ("attribution", lambda n, k: f"CC-BY #{n}{k} ({DRAW.choice(USERS)})"),
    "domains": ("domain", lambda n, k: ["news", "talks", "web"][n % 3]),
}


def written(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([*([header] if header else []), *rows])
    return path


@pytest.mark.parametrize("name", DECIDED)
def test_columns_that_decide_the_target_are_named(tmp_path, name):
    header, rows, columns = DECIDED[name]
    path = written(tmp_path / "pairs.tsv", header, rows)
    assert f"(--data.feature-columns {' '.join(columns)})" in inspect(path).problem
    assert "sources have several targets (" in inspect(path).problem
    assert not inspect(path, TableSettings(feature_columns=tuple(columns))).problem


@pytest.mark.parametrize("name", REFERENCES)
def test_several_references_beside_other_columns_are_no_choice(tmp_path, name):
    column, cell = REFERENCES[name]
    rows = [(text, reference(text), cell(n, k)) for n, text in enumerate(TEXTS) for k in range(3)]
    path = written(tmp_path / "pairs.tsv", ("source", "target", column), rows)
    assert not inspect(path).problem


LABEL_COLUMNS = {
    "predicted alike": (
        ("text", "name", "letter"),
        [(f"{SYLLABLES[n % 5]} {word()}", f"n{n % 5}", "aabbc"[n % 5]) for n in range(300)],
        "the columns name, letter suit alike as labels",
    ),
    "neither predicted": (
        ("text", "first", "second"),
        [(f"{word()} {word()}", DRAW.choice("abc"), DRAW.choice("xyz")) for _ in range(300)],
        "the columns first, second suit alike as labels",
    ),
    "one column for each label": (
        ("id", "comment_text", "toxic", "obscene", "threat"),
        [
            (n * 7919, f"{word()} {word()}", *(DRAW.choice("001") for _ in range(3)))
            for n in range(300)
        ],
        "the columns toxic, obscene, threat all have the values 0 and 1",
    ),
}


@pytest.mark.parametrize("name", LABEL_COLUMNS)
def test_several_label_columns_are_a_choice(tmp_path, name):
    header, rows, reason = LABEL_COLUMNS[name]
    path = written(tmp_path / "labels.tsv", header, rows)
    assert reason in inspect(path).problem
    assert "name it with --data.target-column" in inspect(path).problem
    assert not inspect(path, TableSettings(target_columns=(header[-1],))).problem
    named = (*header[:-1], "label")
    assert not inspect(written(tmp_path / "named.tsv", named, rows)).problem


@pytest.mark.parametrize("rows", [DECIDED["language"], LABEL_COLUMNS["predicted alike"]])
def test_a_choice_stops_the_training_in_every_way(tmp_path, monkeypatch, capsys, rows):
    monkeypatch.chdir(tmp_path)
    header, content, _ = rows
    path = written(tmp_path / "data.tsv", header, content)
    status, out, _ = regard(capsys, "check", path)
    assert status == 1
    assert "training would stop: " in out
    recipe = "letters" if "target" in header else "labels"
    for words in ((path,), (recipe, path), (recipe, "--data.path", path)):
        status, _, err = regard(capsys, "train", *words)
        assert status == 1
        assert err.startswith("regard train: ")
        assert err.endswith("; to train anyway: --data.checks warn\n")
        assert len(err.splitlines()) == 1
    with pytest.raises(SystemExit, match="0"):
        regard(capsys, "train", path, "--help")
    frame = pandas.DataFrame(content, columns=list(header))
    for data, name in ((path, None), (frame, None), (frame, recipe)):
        with pytest.raises(UserError, match="to train anyway"):
            package.train(data, name)
    settings = {"data.checks": "warn", "model.size": 16, "training.epochs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package.train(frame, settings=settings)
