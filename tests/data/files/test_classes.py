"""Whole numbers: numbers of classes are labels, and quantities stay numbers."""

from __future__ import annotations

import csv
import random
import warnings

import pytest

from regard.data.files.tables import TableSettings
from regard.data.recognition.inspection import inspect
from regard.pipeline.fit import experiment_of

KEYS = [
    f"{a}{b}"
    for a in ("ka", "lo", "mi", "su", "te", "no")
    for b in ("ban", "der", "fit", "gol", "hus")
]
OTHERS = ("please", "can", "you", "the", "my", "want", "need", "it", "with", "now")


def text_of(draw, number):
    words = [draw.choice(OTHERS) for _ in range(6)]
    words.insert(draw.randrange(6), KEYS[number % 30])
    return " ".join(words)


def rows_of(number_of, size=1200):
    draw = random.Random(1)
    rows = [(text_of(draw, n), number_of(n, draw)) for n in range(size)]
    draw.shuffle(rows)
    return rows


def class_of(n, draw):
    return n % 30


def noisy(n, draw):
    return min(29, max(0, int(draw.gauss(n % 30, 4))))


def ordered(n, draw):
    return min(29, max(0, round(draw.gauss(n % 30, 1))))


def named(rows):
    return [(text, number, f"the intent of {KEYS[number]} s") for text, number in rows]


CASES = {
    "intents": (rows_of(class_of), ("text", "label"), "label", "label"),
    "no header": (rows_of(class_of), (), "label", "2"),
    "category": (rows_of(class_of), ("text", "category"), "label", "category"),
    "German": (rows_of(class_of), ("Satz", "Gruppe"), "label", "Gruppe"),
    "from 1": (rows_of(lambda n, draw: 1 + n % 30), ("text", "group"), "label", "group"),
    "ids with gaps": (
        rows_of(lambda n, draw: 7 * (n % 30)),
        ("text", "intent_id"),
        "label",
        "intent_id",
    ),
    "floats": (rows_of(lambda n, draw: f"{n % 30}.0"), ("text", "label"), "label", "label"),
    "names": (named(rows_of(class_of)), ("text", "label", "label_text"), "label", "label_text"),
    "names without a header": (named(rows_of(class_of)), (), "label", "3"),
    "-1 and 1": (rows_of(lambda n, draw: n % 2 * 2 - 1), ("text", "label"), "label", "label"),
    "booleans": (rows_of(lambda n, draw: n % 2 == 0), ("text", "spam"), "label", "spam"),
    "stars": (rows_of(lambda n, draw: 1 + n % 5), ("text", "stars"), "label", "stars"),
    "score": (rows_of(lambda n, draw: n * 7 % 101), ("text", "score"), "number", "score"),
    "user score": (
        rows_of(lambda n, draw: n % 51),
        ("text", "user_scores"),
        "number",
        "user_scores",
    ),
    "age": (rows_of(lambda n, draw: n % 91), ("text", "age"), "number", "age"),
    "random scores": (rows_of(lambda n, draw: draw.randint(0, 60), 3000), (), "number", "2"),
    "years": (rows_of(lambda n, draw: 1990 + n % 34), (), "number", "2"),
    "prices": (
        rows_of(lambda n, draw: 3 * (n % 30) + draw.randint(0, 9)),
        ("text", "price"),
        "number",
        "price",
    ),
    "noisy": (rows_of(noisy, 3000), (), "number", "2"),
    "ordered": (rows_of(ordered, 3000), (), "number", "2"),
    "counts": (rows_of(lambda n, draw: int(draw.expovariate(0.1))), ("text", "n"), "number", "n"),
    "fractions": (rows_of(lambda n, draw: n % 50 / 7), ("text", "label"), "number", "label"),
}


def experiments_of(tmp_path, rows, head, settings=None):
    """Return the experiments on a file, on a list and, with a header, on data frames."""
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows] if head else rows)
    data = [str(path)]
    if not head and len(rows[0]) == 2:
        data.append(rows)
    if head:
        records = [dict(zip(head, row, strict=True)) for row in rows]
        data.append(records)
        pandas = pytest.importorskip("pandas")
        data.append(pandas.DataFrame(records))
    for each in data:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            experiment, _ = experiment_of(each, None, settings or {})
        texts = [str(warning.message) for warning in caught]
        yield experiment, [text for text in texts if "the first row (" not in text]


CODES = [1101 + 37 * number * number for number in range(30)]


@pytest.mark.parametrize(
    "name",
    [
        *("Kategorie", "classe", "categoría", "catégorie", "类别", "codigo", "código", "isco_code"),
        *("Klasse", "NAICS Code", "Категория", "カテゴリ", "topic_id", "κατηγορία", "rótulo"),
    ],
)
def test_codes_with_gaps_under_a_name_of_classes_are_labels(tmp_path, name):
    rows = rows_of(lambda n, draw: CODES[n % 30], 600)
    for experiment, _ in experiments_of(tmp_path, rows, ("text", name)):
        assert (experiment.data.target, experiment.data.target_column) == ("label", (name,))


@pytest.mark.parametrize("name", ["user_id", "decode", "thematic", "price", "Author code"])
def test_numbers_under_other_names_are_no_codes(tmp_path, name):
    rows = rows_of(lambda n, draw: CODES[n % 30], 600)
    experiment, _ = next(experiments_of(tmp_path, rows, ("text", name)))
    assert experiment.data.target == "number"


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_classes_are_labels_and_quantities_are_numbers(tmp_path, name):
    rows, head, kind, column = CASES[name]
    for experiment, caught in experiments_of(tmp_path, rows, head):
        data = experiment.data
        assert data.target == kind
        assert data.target_column in ((column,), None)
        is_number = all(str(row[-1]).lstrip("-").replace(".", "").isdecimal() for row in rows)
        assert len(caught) == is_number
        assert all(
            f"recipe {'values' if kind == 'number' else 'labels'}" in text for text in caught
        )


def test_the_kind_of_the_targets_may_be_set(tmp_path):
    rows, head, _, _ = CASES["intents"]
    for kind, recipe in (("number", "values"), ("label", "labels")):
        for experiment, caught in experiments_of(tmp_path, rows, head, {"data.target": kind}):
            assert (experiment.data.target, caught) == (kind, [])
        roles = inspect(tmp_path / "a.csv", TableSettings(target=kind)).roles
        assert roles.recipe == recipe


def test_the_other_kind_is_named(tmp_path):
    list(experiments_of(tmp_path, *CASES["intents"][:2]))
    assert inspect(tmp_path / "a.csv").lines()[0].endswith("Otherwise: --data.target number")
    list(experiments_of(tmp_path, *CASES["age"][:2]))
    assert inspect(tmp_path / "a.csv").lines()[0].endswith("Otherwise: --data.target label")
    list(experiments_of(tmp_path, *CASES["fractions"][:2]))
    assert "Uncertain: the values of label are not whole" in inspect(tmp_path / "a.csv").lines()[1]


def test_types_of_categories_are_labels():
    pandas = pytest.importorskip("pandas")
    rows = CASES["age"][0]
    frame = pandas.DataFrame(rows, columns=["text", "value"])
    frame["value"] = frame["value"].astype("category")
    frames = [frame]
    polars = pytest.importorskip("polars")
    numbers = polars.Series("value", [str(number) for _, number in rows])
    texts = polars.Series("text", [text for text, _ in rows])
    frames.append(polars.DataFrame([texts, numbers.cast(polars.Categorical)]))
    for data in frames:
        with warnings.catch_warnings(record=True):
            experiment, _ = experiment_of(data, None, {})
        assert experiment.data.target == "label"


def test_a_column_called_label_that_is_constant_has_labels(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{text},neg" for text, _ in rows_of(class_of)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    assert inspect(path).roles.title == "labels (1 in 1,200 rows)"
    words = [f"{KEYS[n % 30]}{n},{KEYS[n % 30]}en{n},noun" for n in range(600)]
    for head in ("word,form,category", "English,German,category"):
        path.write_text("\n".join([head, *words]) + "\n")
        roles = inspect(path).roles
        assert (roles.recipe, roles.source, roles.target) == ("letters", 0, 1)
