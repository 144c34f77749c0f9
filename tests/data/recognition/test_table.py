"""One answer to what a table is: files, workbooks' formats, data frames and lists agree."""

from __future__ import annotations

import csv
import json

import pytest

from regard.data.files import blocks
from regard.data.files.objects import table_of
from regard.data.files.tables import TableSettings
from regard.data.labels.readers import read_labelled
from regard.data.recognition.formats import encoding_of_lines
from regard.data.recognition.inspection import inspect, inspect_table
from regard.data.recognition.table import USUAL_NAMES, columns_of, open_table
from regard.data.text import parallel
from regard.errors import UserError
from regard.storage import files
from tests.data.files.test_workbooks import workbook
from tests.messages import raises

HEAD = ("id", "text", "label", "file", "caption", "word", "form")
ROWS = [
    (str(n), f"a text {n * n}", "ABC"[n % 3], f"{n}.jpg", f"a dog {n}", f"w{n}x", f"f{n}y")
    for n in range(60)
]
EXPECTED = {"translate": (5, (6,)), "classify": (1, (2,)), "caption": (3, (4,))}
OTHER = ("a", "b", "c", "d", "e", "f", "g")
CHOICES = [
    TableSettings(),
    TableSettings(source_columns=("word",), target_columns=("7",)),
    TableSettings(source_columns=("5",), target_columns=("label",), feature_columns=("form",)),
]


def tables(tmp_path, head, rows, names=()):
    """Return the same table from files and from memory."""
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows([head, *rows])
        yield open_table(tmp_path / name, TableSettings(), names)
    records = [dict(zip(head, row, strict=True)) for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    yield open_table(tmp_path / "a.jsonl", TableSettings(), names)
    yield table_of(records)


@pytest.mark.parametrize("task", USUAL_NAMES)
def test_files_and_data_in_memory_have_the_same_header_and_columns(tmp_path, task):
    first, *others = tables(tmp_path, HEAD, ROWS)
    columns = columns_of(first, TableSettings(), task)
    assert (columns.source, columns.targets) == EXPECTED[task]
    roles = inspect_table(first, TableSettings(), task).roles
    for table in others:
        assert (table.header, list(table.rows)) == (first.header, list(first.rows))
        for settings in CHOICES:
            assert columns_of(table, settings, task) == columns_of(first, settings, task)
        assert inspect_table(table, TableSettings(), task).roles == roles


@pytest.mark.parametrize(
    "settings",
    [
        TableSettings(source_columns=("z",)),
        TableSettings(target_columns=("3",)),
        TableSettings(source_columns=("a",), target_columns=("1",)),
        TableSettings(source_columns=("a",), target_columns=("b",), feature_columns=("b",)),
        TableSettings(feature_columns=("z",)),
    ],
)
@pytest.mark.parametrize("task", ["classify", "caption"])
def test_the_error_lists_the_columns_and_the_option(tmp_path, settings, task):
    for table in tables(tmp_path, OTHER, ROWS, OTHER):
        with raises(UserError):
            columns_of(table, settings, task)


@pytest.mark.parametrize(
    ("name", "number"),
    [("a.csv", 2), ("a.tsv", 2), ("a.jsonl", 2), ("a.json", 1), ("b.json", 1), ("a.xlsx", 1)],
)
def test_a_file_is_opened_once_to_recognise_and_once_to_read(tmp_path, monkeypatch, name, number):
    list(tables(tmp_path, HEAD, ROWS))
    records = [dict(zip(HEAD, row, strict=True)) for row in ROWS]
    (tmp_path / "a.json").write_text(json.dumps(records))
    (tmp_path / "b.json").write_text(json.dumps({"version": 1, "data": records}))
    (tmp_path / "a.xlsx").write_bytes(workbook([("cover",)], [row[5:] for row in (HEAD, *ROWS)]))
    blocks._blocks.cache_clear()
    opened, path, open_once = list[str](), tmp_path / name, files._open
    monkeypatch.setattr(files, "_open", lambda path: opened.append(path.name) or open_once(path))
    settings = TableSettings(source_columns=("word",), target_columns=("form",))
    inspect(path, settings)
    assert opened == [name]
    assert len(parallel.read_pairs(path, settings=settings).pairs) == len(ROWS)
    assert opened == [name] * number


def test_lines_with_the_name_of_a_table_are_opened_once_to_recognise(tmp_path, monkeypatch):
    path = tmp_path / "a.tsv"
    path.write_text("a text\nanother text\n")
    opened, open_once = list[str](), files._open
    monkeypatch.setattr(files, "_open", lambda path: opened.append(path.name) or open_once(path))
    open_table(path, TableSettings())
    assert encoding_of_lines(path, None).is_utf8
    assert opened == ["a.tsv"]


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (("title", "noun"), [(f"w{n}x", ("noun", "verb")[n % 2]) for n in range(60)]),
        (("question", "no"), [(f"w{n} w{n}", ("no", "yes")[n % 2]) for n in range(60)]),
        (("text", "spam", "7"), [(f"w{n} a", ("spam", "ham")[n % 2], f"{n}") for n in range(60)]),
        (("title", "3.25"), [(f"w{n}x", f"{n}.5") for n in range(60)]),
    ],
)
def test_inspection_and_reading_take_one_first_row_for_an_example(tmp_path, first, others):
    path = tmp_path / "a.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (first, *others)))
    inspection = inspect(path)
    known = None if inspection.roles.fields.get("data.target") == "number" else frozenset()
    assert inspection.header is None
    assert len(read_labelled(path, TableSettings(), known).pairs) == len(others) + 1
