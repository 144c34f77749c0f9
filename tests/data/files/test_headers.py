"""Headers below blank rows, beside blank columns, and with unusual names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from regard.data.files.inspection import inspect
from regard.data.files.tables import TableSettings
from regard.data.labels.readers import read_labelled
from regard.data.text.parallel import read_pairs
from regard.errors import UserError

ROWS = [(f"word{n}x", f"form{n}y") for n in range(30)]


def read(path, settings=None):
    """Return the pairs of a file, read with the columns that its inspection finds."""
    settings, fields = settings or TableSettings(), inspect(path, settings).fields()
    columns = {
        f"{side}_columns": (fields[f"data.{side}_column"],)
        for side in ("source", "target")
        if f"data.{side}_column" in fields
    }
    return read_pairs(path, settings=replace(settings, **columns))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("blank", ["\n\n", "#\n\n"])
def test_a_header_may_follow_blank_rows(tmp_path, name, blank):
    delimiter = "," if name == "a.csv" else "\t"
    text = f"{blank}source#target\n" + "".join(f"{a}#{b}\n" for a, b in ROWS)
    path = tmp_path / name
    path.write_text(text.replace("#", delimiter))
    corpus = read(path)
    assert [(pair.source, pair.target) for pair in corpus.pairs] == ROWS
    assert [problem.line for problem in corpus.problems] == [1, 2]
    path.write_text(text.replace("#", delimiter).replace("target", "label"))
    labelled = read_labelled(path)
    assert (len(labelled.pairs), len(labelled.problems)) == (30, 2)


def test_a_header_may_stand_beside_blank_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",,source,target\n" + "".join(f",,{a},{b}\n" for a, b in ROWS))
    assert [(pair.source, pair.target) for pair in read(path).pairs] == ROWS


@pytest.mark.parametrize("names", [("2", "1"), ("0", "1"), ("a\nb", "c"), ("Text", "text")])
def test_columns_are_not_swapped(tmp_path, names):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS))
    assert [(pair.source, pair.target) for pair in read(path).pairs] == ROWS


def test_a_name_that_is_the_number_of_another_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("2,a,a\n" + "".join(f"{n},{a},{b}\n" for n, (a, b) in enumerate(ROWS)))
    with pytest.raises(UserError, match=r"column 2 has no name of its own.*'2': rename"):
        read(path, TableSettings(header=True))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_one_column_is_one_line(tmp_path, name):
    path = tmp_path / name
    path.write_text('{"a": "b"}\n' * 9 if name == "a.jsonl" else "b\n" * 9)
    with pytest.raises(UserError, match=r"its rows have one column"):
        inspect(path)


def test_text_and_label_are_two_columns(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\tx\nb\ty\n" * 9)
    columns = TableSettings(source_columns=("2",), target_columns=("2",))
    with pytest.raises(UserError, match="text and label are both column 2"):
        read_labelled(path, columns)


def test_a_file_name_with_a_line_end_is_one_line(tmp_path):
    path = tmp_path / "a\nb.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in ROWS))
    assert not any("\n" in line for line in inspect(path).lines())


@pytest.mark.parametrize(("names", "is_header"), [("a,b,price of c", True), ("w,v,n/a", False)])
def test_names_above_a_third_column_of_numbers(tmp_path, names, is_header):
    path = tmp_path / "a.csv"
    rows = "".join(f"{a},{b},{n}.5\n" for n, (a, b) in enumerate(ROWS))
    path.write_text(f"{names}\n{rows}")
    assert (inspect(path).header is not None) == is_header
    assert len(read(path).pairs) == 31 - is_header
