"""Task and columns of many small files, in one table."""

from __future__ import annotations

import csv
import io
import random

import pytest

from regard.data.files.tables import TableSettings
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.inspection import inspect
from regard.data.recognition.kinds import ColumnKinds
from regard.data.recognition.roles import assign_roles
from regard.data.recognition.table import Table
from regard.errors import UserError
from tests.messages import check_message, raises

GREEK = ["θάλασσα", "ήλιος", "νερό", "λόγος", "φως", "γη", "ουρανός", "δρόμος", "σπίτι", "χέρι"]
LATIN = ["thalassa", "ilios", "nero", "logos", "fos", "gi", "ouranos", "dromos", "spiti", "cheri"]
WORDS = [
    (f"{GREEK[n % 10]}{GREEK[n // 10]}", f"{LATIN[n % 10]}{LATIN[n // 10]}") for n in range(50)
]
SOUNDS = [(latin, " ".join(latin)) for _, latin in WORDS]
SENTENCES = [
    (f"the {n} words of sentence {n * n} are longer than forty letters", f"Satz {n} von {n * n}")
    for n in range(50)
]
QUESTIONS = [
    (f"what is the meaning of {latin}", "ABC"[n % 3]) for n, (_, latin) in enumerate(WORDS)
]
REVIEWS = [(f"this film about {latin} is good", str(n % 5)) for n, (_, latin) in enumerate(WORDS)]
PICTURES = [(f"{n}.jpg", f"a picture of {latin}") for n, (_, latin) in enumerate(WORDS)]
FLICKR = [(f"{n // 5}.jpg#{n % 5}", text) for n, (_, text) in enumerate(PICTURES)]
SERIES = [(f"0.{n} 0.5 0.{n + 7}", f"0.{n + 7}") for n in range(50)]
ITEMS = [(f"cola 1.{n}; bread 0.{n + 10}", f"1.{n}") for n in range(10, 60)]
PACKAGES = [
    (name, f"The team for everything of kind {n % 7} <team-{n % 7}@example.org>", f"tool {n}", kind)
    for n, ((_, name), (_, kind)) in enumerate(zip(WORDS, QUESTIONS, strict=True))
]
REPEATED = [(f"A{n:05d}-{n % 7}", f"item {n % 13}", "AB"[n % 13 % 2]) for n in range(300)]
REVERSED = [(str(number), str(number)[::-1]) for number in range(210, 9000, 170)]
PRICES = [(f"a house with {latin}", str(1000 + 7 * n)) for n, (_, latin) in enumerate(WORDS)]


def written(tmp_path, rows, head=(), name="a.csv", delimiter=","):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([head, *rows] if head else rows)
    path = tmp_path / name
    path.write_text(text.getvalue(), encoding="utf8")
    return path


def roles_of(header, rows, columns=(None, None)):
    """Return the roles of the columns of data in memory."""
    table = Table("rows", header and tuple(header), rows, FileFormat("memory"))
    return assign_roles(ColumnKinds(table, TableSettings(), columns))


def numbered(rows):
    return [(n, *row) for n, row in enumerate(rows)]


def swapped(rows):
    return [(target, source) for source, target in rows]


def dated(rows):
    return [(f"2024-05-{n % 28 + 1:02d}", *row) for n, row in enumerate(rows)]


def both(rows, words):
    """Return rows with a second text before the target."""
    return [(text, words[n % 10] + words[n // 10], end) for n, (text, end) in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "head", "recipe", "columns"),
    [
        (WORDS, (), "letters", (0, 1)),
        (WORDS, ("Word (Greek)", "Transliteration"), "letters", (0, 1)),
        (WORDS, ("griechisch", "lateinisch"), "letters", (0, 1)),
        (numbered(WORDS), (), "letters", (1, 2)),
        (numbered(WORDS), ("id", "word", "form"), "letters", (1, 2)),
        ([(*row, "") for row in WORDS], ("word", "form", "notes"), "letters", (0, 1)),
        ([(*row, "CC-BY") for row in WORDS], (), "letters", (0, 1)),
        (swapped(WORDS), ("target", "source"), "letters", (1, 0)),
        (swapped(WORDS), ("target", "foo"), "letters", (1, 0)),
        (swapped(WORDS), ("foo", "src"), "letters", (1, 0)),
        (swapped(SENTENCES), ("translation", "english"), "words", (1, 0)),
        (swapped(WORDS[:10]), ("foo", "source"), "letters", (1, 0)),
        (SOUNDS, (), "letters", (0, 1)),
        (SENTENCES, (), "words", (0, 1)),
        (WORDS[:10], (), "letters", (0, 1)),
        (REVERSED, (), "letters", (0, 1)),
        (swapped(REVERSED), (), "values", (0, 1)),
        (swapped(REVERSED), ("code", "price"), "values", (0, 1)),
        (REVERSED, ("price", "code"), "values", (1, 0)),
        ([(*row, n / 2) for n, row in enumerate(WORDS)], ("word", "form", "n"), "letters", (0, 1)),
        (QUESTIONS, (), "labels", (0, 1)),
        (QUESTIONS, ("text", "label"), "labels", (0, 1)),
        (QUESTIONS, ("Frage", "Klasse"), "labels", (0, 1)),
        (swapped(QUESTIONS), (), "labels", (1, 0)),
        (swapped(QUESTIONS), ("topic", "question"), "labels", (1, 0)),
        ([(n, *row, "anna") for n, row in enumerate(QUESTIONS)], (), "labels", (1, 2)),
        (REVIEWS, ("review", "stars"), "labels", (0, 1)),
        (REPEATED, ("code", "thing", "topic"), "labels", (1, 2)),
        (PACKAGES, ("Paket", "Betreuer", "Zweck", "Abteilung"), "labels", (0, 3)),
        (PICTURES, (), "captions", (0, 1)),
        (PICTURES, ("Filename", "Description"), "captions", (0, 1)),
        (swapped(PICTURES), ("caption", "file"), "captions", (1, 0)),
        (PICTURES[:3], (), "captions", (0, 1)),
        (FLICKR, (), "captions", (0, 1)),
        (SERIES, (), "values", (0, 1)),
        (ITEMS, (), "drinks", (0, 1)),
        (PRICES, ("text", "price"), "values", (0, 1)),
        (swapped(PRICES), ("price", "offer"), "values", (1, 0)),
        (dated(PRICES), ("day", "offer", "price"), "values", (1, 2)),
        (dated(SERIES), ("day", "readings", "highest"), "values", (1, 2)),
        (both(PRICES, LATIN), ("review", "author", "score"), "values", (0, 2)),
        (both(PRICES, LATIN), ("source", "target", "score"), "letters", (0, 1)),
        (both(PRICES, LATIN), ("sentence", "translation", "length"), "letters", (0, 1)),
        ([(text, n % 9) for n, (text, _) in enumerate(PRICES)], (), "values", (0, 1)),
    ],
)
def test_recipe_and_columns(tmp_path, rows, head, recipe, columns):
    roles = inspect(written(tmp_path, rows, head)).roles
    assert (roles.recipe, (roles.source, roles.target)) == (recipe, columns)
    header = inspect(written(tmp_path, rows, head)).header
    assert header == (tuple(head) if head else None)


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        (SOUNDS, {"data.target_tokenizer": "spaces"}),
        (SERIES, {"data.source": "series", "data.target": "number"}),
        (ITEMS, {"data.source": "items", "data.target": "number"}),
        (PRICES, {"data.source": "text", "data.target": "number"}),
        (QUESTIONS, {}),
    ],
)
def test_fields_that_the_rows_decide(tmp_path, rows, fields):
    assert inspect(written(tmp_path, rows)).roles.fields == fields


def test_a_task_that_the_file_does_not_look_like_has_the_likely_columns(tmp_path):
    rows = [
        (f"{n}-{name}", f"L{n % 30}", f"text about {name}") for n, (_, name) in enumerate(WORDS)
    ]
    path = written(tmp_path, rows, ("code", "place", "note"))
    assert inspect(path).roles.task == "translate"
    roles = inspect(path, task="classify").roles
    assert (roles.source, roles.target, roles.is_recognised) == (2, 1, False)


def test_lines_with_the_label_first(tmp_path):
    path = tmp_path / "train.all"
    rows = [f"{label} {text}" for text, label in QUESTIONS]
    path.write_text("\n".join(rows))
    assert inspect(path).roles.recipe == "labels"
    assert inspect(path).fields() == {}
    random.Random(1).shuffle(rows)
    path.write_text("\n".join(text for text, _ in QUESTIONS))
    with raises(UserError):
        inspect(path)


def test_lines_whose_last_word_is_the_label_need_a_delimiter(tmp_path):
    path = tmp_path / "locales.txt"
    lines = [f"locale{number} {['UTF-8', 'GBK'][number % 2]}\n" for number in range(60)]
    path.write_text("".join(lines))
    with raises(UserError, "--data.delimiter"):
        inspect(path)
    inspection = inspect(path, TableSettings(delimiter="space"))
    assert (inspection.roles.recipe, inspection.roles.target) == ("labels", 1)


def test_two_lines_say_what_was_recognised(tmp_path):
    rows = [(n, *row) for n, row in enumerate(QUESTIONS)]
    path = written(tmp_path, rows, ("id", "question", "topic"), "q.csv", ";")
    check_message(*inspect(path).lines())
    path = tmp_path / "win.tsv"
    text = "".join(f"{greek}\t{latin}\n" for greek, latin in zip(GREEK, LATIN, strict=True))
    path.write_bytes(text.encode("cp1253"))
    check_message(*inspect(path).lines())


def test_settings_and_task_decide(tmp_path):
    path = written(tmp_path, QUESTIONS, ("text", "label"))
    assert inspect(path, task="translate").roles.recipe == "letters"
    columns = TableSettings(source_columns=("label",), target_columns=("text",))
    assert inspect(path, columns).fields()["data.source_column"] == "label"
    assert inspect(path, TableSettings(header=False)).num_rows == 51


def test_plain_pairs_need_no_columns(tmp_path):
    path = written(tmp_path, WORDS, name="a.tsv", delimiter="\t")
    assert inspect(path).columns() == {}
    assert inspect(path).fields() == {"data.source_language": "el", "data.target_language": "und"}


def test_an_empty_file_is_one_line(tmp_path):
    path = tmp_path / "empty.tsv"
    path.write_text("")
    with pytest.raises(UserError, match=r"empty.tsv is empty: expected rows"):
        inspect(path)


@pytest.mark.parametrize("source", [0, 1, 2])
@pytest.mark.parametrize("header", [None, ("source", "target", "note")])
def test_a_column_that_is_set_precedes_content_and_names(header, source):
    rows = [(greek, latin, f"{latin}en") for greek, latin in WORDS]
    assert roles_of(header, rows, (source, None)).source == source


@pytest.mark.parametrize("columns", [(0, None), (0, 1), (1, 0)])
def test_columns_that_are_named_are_no_images(columns):
    rows = [(f"lemma{number}", f"form{number}") for number in range(50)]
    assert roles_of(("lemma", "form"), rows, columns).task == "translate"
    images = [(f"{number}.jpg", f"a caption number {number}") for number in range(50)]
    assert roles_of(None, images, (0, None)).task == "caption"


THOUSANDS = "commas between thousands"
UNSURE = ", uncertain decimal mark: --data.decimal-mark"


@pytest.mark.parametrize(
    ("rows", "delimiter", "title"),
    [
        ([(f"{n} g Käse", f"{n},03") for n in range(50)], ";", "text, decimal commas"),
        ([(f"{n} g Käse", f"1.{n + 100},50") for n in range(50)], "\t", "text, decimal commas"),
        ([(f"{n} g Käse", f"1,5{n}", f"{n},03") for n in range(50)], ";", "text, decimal commas"),
        ([(f"0.{n},0 0.52,1", f"{n},5") for n in range(50)], "\t", "series, decimal commas"),
        ([(f"0.{n},0 0.52,1", f"0.{n}") for n in range(50)], "\t", "series"),
        ([(f"{n},0 1,1", f"0.{n}") for n in range(50)], "\t", "series"),
        ([(f"Käse {n}", f"{n},03 €") for n in range(50)], ";", "text, in €, decimal commas"),
        ([(f"{n} g Käse", f"{n},03 €") for n in range(50)], ";", "text, in €, decimal commas"),
        ([(f"{n} g Käse", f"${n}.03") for n in range(50)], ",", "text, in $"),
        ([(f"{n} g Käse", f"{n} kg", f"{n} %") for n in range(50)], ",", "text, in %"),
        ([(f"Käse {n}", f"{n},100.50") for n in range(1, 51)], ";", f"text, {THOUSANDS}"),
        (
            [(f"Käse {n}", f"${n},100") for n in range(1, 51)],
            ",",
            f"text, in $, {THOUSANDS}{UNSURE}",
        ),
        ([(f"Käse {n}", f"{n + 1},234") for n in range(50)], ";", f"text, decimal commas{UNSURE}"),
        ([(f"Käse {n}", f"{n},03") for n in range(50)], ",", "text, decimal commas"),
        ([(f"Käse {n}", f"{n} {'kg'[n % 3 == 0 :]}") for n in range(50)], ";", "text, in kg"),
    ],
)
def test_numbers_of_targets_may_have_decimal_commas_and_a_unit(tmp_path, rows, delimiter, title):
    path = written(
        tmp_path, rows, ("Artikel", *("Preis",) * (len(rows[0]) - 1)), "a.csv", delimiter
    )
    inspection = inspect(path)
    assert inspection.roles.title == f"values (a number for each {title})"
    assert inspection.header is not None
    assert inspection.roles.target == len(rows[0]) - 1


@pytest.mark.parametrize(
    ("rows", "delimiter"),
    [
        ([(f"{n},5", f"{n},03") for n in range(50)], ";"),
        ([(f"{n} g Käse", f"{n}{'kg'[n % 2 :]}") for n in range(50)], ";"),
        ([(f"{n} kg", f"{n} €") for n in range(50)], ";"),
        ([(f"{n} km", f"{'abcde'[n % 5]} kilometres {n}") for n in range(50)], "\t"),
        ([(f"{n}th", f"the one after {n - 1}, in words") for n in range(50)], "\t"),
    ],
)
def test_other_commas_and_several_units_give_pairs(tmp_path, rows, delimiter):
    path = written(tmp_path, rows, name="a.csv", delimiter=delimiter)
    assert inspect(path).roles.task == "translate"


@pytest.mark.parametrize("form", ["{}/{}", "{}:{}", "{}-{}", "{} – {}"])
def test_targets_of_two_numbers_are_reported(form):
    rows = [(f"word {n} other {n % 7}", form.format(n % 9 + 1, n % 53 + 10)) for n in range(60)]
    roles = roles_of(None, rows)
    assert (roles.task, roles.recipe) == ("translate", "letters")
    assert "60 of 60 targets are two numbers, such as" in roles.doubt
