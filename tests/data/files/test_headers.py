"""Headers below blank rows, beside blank columns, and with unusual names."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest

from regard.data.files.source_table import SourceTable
from regard.data.files.tables import TableSettings, column_name
from regard.data.labels.readers import read_labelled
from regard.data.recognition import inspection
from regard.data.recognition.formats import recognise
from regard.data.recognition.inspection import inspect
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.messages import check_message, raises

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


TABLE = [["id", "word", "form", "date"], *([str(n), *row, "1990"] for n, row in enumerate(ROWS))]
PAIRS = TableSettings(source_columns=("word",), target_columns=("form",))


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("a.csv", ["# from the archive"]),
        ("a.csv", ["Words and forms,,,", ""]),
        ("a.tsv", ["Words and forms", ",,,", "# 2026"]),
        ("a.csv", ["30"]),
    ],
)
def test_rows_above_the_table_are_left_out(tmp_path, name, titles):
    path, delimiter = tmp_path / name, "," if name == "a.csv" else "\t"
    text = "\n".join([*titles, *map(",".join, TABLE)]) + "\n"
    path.write_text(text.replace(",", delimiter))
    inspection, corpus = inspect(path, PAIRS), read(path, PAIRS)
    assert inspection.header == tuple(TABLE[0])
    title = titles[0].rstrip(",")
    check_message(inspection.lines()[2])
    assert inspection.lines()[2].endswith(f"({title})")
    assert [(pair.source, pair.target) for pair in corpus.pairs] == ROWS
    assert len(corpus.problems) == len(titles)
    assert "above the table (line" in corpus.summary()[0]
    labelled = read_labelled(path, PAIRS)
    assert (len(labelled.pairs), len(labelled.problems)) == (30, len(titles))
    table = SourceTable.open(path, PAIRS)
    assert (table.header, len(list(table.rows())), table.width) == (inspection.header, 30, 4)


def test_a_comment_above_two_columns_is_no_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# from the archive\nsource,target\n" + "".join(f"{a},{b}\n" for a, b in ROWS))
    assert inspect(path).header == ("source", "target")


def test_a_table_below_a_title_may_have_no_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "178,13\n" + "".join(f"{n},{n}.5,{a},{b},{n % 2}\n" for n, (a, b) in enumerate(ROWS))
    )
    assert (inspect(path).header, inspect(path).num_rows) == (None, 30)
    corpus = read_pairs(path, settings=TableSettings(header=False, target_columns=("5",)))
    assert (len(corpus.pairs), [problem.line for problem in corpus.problems]) == (30, [1])


@pytest.mark.parametrize("first", ["a", "word1,form1", "name,other", "word1,form1,,"])
def test_ragged_rows_are_no_titles(tmp_path, first):
    path = tmp_path / "a.csv"
    num_columns = 2 if first == "a" else 4
    cells = ["x", "y", "z", "v"][: num_columns - 2]
    path.write_text(f"{first}\n" + "".join(",".join([*row, *cells]) + "\n" for row in ROWS))
    assert len(inspect(path).lines()) == 2
    assert not any(
        problem.kind == "title" for problem in read_pairs(path, settings=TableSettings()).problems
    )


def test_inspection_announces_the_header_that_the_reader_skips(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{a} {b},{'AB'[n % 2]},{b}" for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(["foo,bar,baz", *rows]) + "\n")
    inspection = inspect(path)
    assert (inspection.header, inspection.num_rows) == (("foo", "bar", "baz"), 30)
    assert "header; labels (2 in 30 rows)" in inspection.lines()[0]
    settings = TableSettings(source_columns=("1",), target_columns=("2",))
    assert len(read_labelled(path, settings).pairs) == 30


def test_the_separator_that_excel_reads_is_no_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\ufeffsep=;\nword;form\n" + "".join(f"{a};{b}\n" for a, b in ROWS))
    assert inspect(path).header == ("word", "form")
    assert [(pair.source, pair.target) for pair in read(path).pairs] == ROWS
    path.write_text("sep=;\n")
    with pytest.raises(UserError, match=r"no pairs in .*a\.csv"):
        read(path)


@pytest.mark.parametrize("day", ["2004-10-{}", "{}.10.2004", "10/{}/2004 12:30"])
def test_names_above_dates_are_a_header(tmp_path, day):
    rows = [(f"{number}.04 LTS", f"Name {number}", day.format(number)) for number in range(10, 20)]
    path = tmp_path / "releases.csv"
    path.write_text("".join(",".join(row) + "\n" for row in [("version", "series", "end"), *rows]))
    assert inspect(path).header == ("version", "series", "end")
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    assert inspect(path).header is None


@pytest.mark.parametrize("names", ["word,form,age", "source,target,age"])
def test_a_repeated_header_is_left_out(tmp_path, names):
    export = "\ufeff" + f"{names}\n\n" + "".join(f"{a},{b},{len(a)}\n" for a, b in ROWS)
    path = tmp_path / "joined.csv"
    path.write_text(export * 2, encoding="utf-8")
    assert inspect(path).num_rows == 60
    corpus = read(path)
    assert [(pair.source, pair.target) for pair in corpus.pairs] == ROWS * 2
    assert "1 with the header again (line 33)" in " ".join(corpus.summary())
    path.write_text("the dog,der Hund\n" * 3)
    assert len(read(path).pairs) == 3


def test_another_script_among_many_scripts_is_no_header(tmp_path):
    path = tmp_path / "characters.tsv"
    characters = [chr(code) for code in range(0x10000, 0x11800, 0x80)]
    rows = [(each, name) for each in characters if (name := unicodedata.name(each, ""))]
    path.write_text("".join(f"{each}\t{name}\n" for each, name in rows), encoding="utf-8")
    assert len(rows) > 10
    assert inspect(path).header is None


def test_a_comment_with_names_is_a_header(tmp_path):
    path = tmp_path / "iso.tab"
    codes = [f"{chr(65 + number)}\tLand {number}\n" for number in range(9)]
    path.write_text(
        "".join(["# Codes\n#\n#country-\n", "#code\tname of country, territory\n", *codes])
    )
    assert inspect(path).header == ("#code", "name of country, territory")
    path.write_text("".join(["#a\tyes\n", *codes, "#b\tno\n"]))
    assert inspect(path).header is None


@pytest.mark.parametrize("first", ["#hello\t#hallo", "#nowplaying\tmusic", "# Title\tTitel"])
def test_a_hashtag_or_a_heading_above_sentences_is_no_header(tmp_path, first):
    path = tmp_path / "pairs.tsv"
    rows = [f"{source} and {number}\t{target}" for number, (source, target) in enumerate(ROWS)]
    path.write_text("\n".join([first, *rows]) + "\n")
    assert inspect(path).header is None


def test_equal_cells_of_another_script_are_no_header(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = [f"{source}\tслово {number}" for number, (source, _) in enumerate(ROWS)]
    path.write_text("\n".join(["Wi-Fi\tWi-Fi", *rows]) + "\n", encoding="utf-8")
    assert inspect(path).header is None
    path.write_text("\n".join(["English\tRussian", *rows]) + "\n", encoding="utf-8")
    assert inspect(path).header == ("English", "Russian")


def test_a_missing_number_in_the_first_row_is_no_header(tmp_path):
    path = tmp_path / "a.tsv"
    rows = [f"{b}\t{a} {b}\t{n if n else ''}" for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(rows) + "\n")
    assert inspect(path, task="classify").header is None


def test_the_first_line_says_that_a_sample_was_inspected(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"text number {n},{'AB'[n % 2]}" for n in range(3000)]
    path.write_text("\n".join(["text,label", *rows, "", *rows]) + "\n")
    assert "labels (2 in a sample of 4,999 rows)" in inspect(path).lines()[0]
    path.write_text("file,caption\n" + "".join(f"{n // 5}.jpg,dog {n}\n" for n in range(6000)))
    assert "captions (1,200 images in a sample of 4,999 rows)" in inspect(path).lines()[0]


def test_a_first_row_without_the_last_column_is_rejected(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{a} {b},{b},{'AB'[n % 2]}" for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(["foo,bar", *rows, rows[0]]) + "\n")
    with raises(UserError):
        inspect(path).fields()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("title", ["", "Table 1\n\n"])
@pytest.mark.parametrize("first", ["", ","])
def test_names_of_rows_need_no_name(tmp_path, name, title, first):
    delimiter = {"a.csv": ";", "a.tsv": "\t", "a.txt": ","}[name]
    path = tmp_path / name
    rows = [f"{n},{a},{b},{'yn'[n % 2]}" for n, (a, b) in enumerate(ROWS, 7)]
    text = title + "\n".join([f"{first}foo,bar,baz", *rows]) + "\n"
    path.write_text(text.replace(",", delimiter))
    inspection = inspect(path)
    assert inspection.header == ("", "foo", "bar", "baz")
    assert "columns: foo -> source" in inspection.lines()[1]
    settings = TableSettings(source_columns=("foo",), target_columns=("bar",))
    corpus = read_pairs(path, settings=settings)
    assert [(pair.source, pair.target) for pair in corpus.pairs] == ROWS
    labels = read_labelled(path, replace(settings, target_columns=("baz",)))
    assert [pair.source for pair in labels.pairs] == [source for source, _ in ROWS]
    table = SourceTable.open(path, TableSettings(source_columns=("bar",)))
    assert [table.source_of(row) for row in table.rows()] == [target for _, target in ROWS]


def test_a_first_row_without_a_cell_is_no_header_if_that_is_set(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{n},{a},{b}" for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(["word,form", *rows]) + "\n")
    assert inspect(path).header == ("", "word", "form")
    settings = TableSettings(header=False, source_columns=("1",), target_columns=("2",))
    assert read_pairs(path, settings=settings).pairs[0].target == "form"
    path.write_text("\n".join(["word,form", *rows, "1,2"]) + "\n")
    with pytest.raises(UserError, match="30 of 31 rows below have more"):
        inspect(path)


WIDER_ROWS = {
    "a comma in each source": lambda n, a, b: f"{a} x, y,{b}",
    "a comma in each target": lambda n, a, b: f"{a},{b}, y",
    "a comma in both": lambda n, a, b: f"{a}, x,{b}, y",
    "a decimal comma": lambda n, a, b: f"{a},{n},50",
    "a third column": lambda n, a, b: f"{a},{b},{n}",
    "four more columns": lambda n, a, b: f"{a},{b},x,y,z,v",
    "numbers that do not count the rows": lambda n, a, b: f"{2 * n + 3}, {a},{b}",
    "names of rows without quotes": lambda n, a, b: f"row {n},{a},{b}",
}


@pytest.mark.parametrize("kind", WIDER_ROWS)
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_header_with_fewer_cells_than_all_rows_stops(tmp_path, kind, delimiter):
    path = tmp_path / ("a.csv" if delimiter == "," else "a.tsv")
    rows = [WIDER_ROWS[kind](n, a, b) for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(["source,target", *rows]).replace(",", delimiter) + "\n")
    message = "first row has 2 cells, and 30 of 30 rows below have more"
    for reader in (inspect, read_pairs, SourceTable.open):
        with pytest.raises(UserError, match=message):
            reader(path, settings=TableSettings())


def test_quoted_names_of_rows_need_no_name(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f'"row {n}","{a}, x","{b}"' for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(['"source","target"', *rows]) + "\n")
    assert inspect(path).header == ("", "source", "target")
    assert [pair.source for pair in read(path).pairs] == [f"{a}, x" for a, _ in ROWS]


def test_a_delimiter_at_the_end_of_each_row_adds_no_names_of_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("source,target\n" + "".join(f"{a},{b},\n" for a, b in ROWS))
    assert inspect(path).header == ("source", "target")
    assert [(pair.source, pair.target) for pair in read(path).pairs] == ROWS


def test_a_blank_first_cell_above_equal_cells_is_no_header(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("\tx0\ty0\n" + "".join(f"a\tx{n}\ty{n}\n" for n in range(1, 30)))
    assert inspect(path).header is None


@pytest.mark.parametrize("delimiter", [" ", "\t"])
def test_a_table_of_r_has_quotes(tmp_path, delimiter):
    path = tmp_path / "a.txt"
    rows = [f'"{n}"#"{a} {b}"#{n * 7 % 31}#"{b}"' for n, (a, b) in enumerate(ROWS)]
    path.write_text("\n".join(['"text"#"age"#"form"', *rows]).replace("#", delimiter) + "\n")
    corpus = read(path, TableSettings(source_columns=("text",), target_columns=("form",)))
    assert [(p.source, p.target) for p in corpus.pairs] == [(f"{a} {b}", b) for a, b in ROWS]
    path.write_text(path.read_text().partition("\n")[2])
    assert recognise(path, TableSettings()).quotes is None


def test_the_counts_that_scikit_learn_writes_are_a_title(tmp_path):
    path = tmp_path / "iris.csv"
    rows = [f"{n % 7}.5,{n % 5}.1,{n % 3}.2,{n % 2}.3,{n % 3}" for n in range(150)]
    path.write_text("\n".join(["150,4,setosa,versicolor,virginica", *rows]) + "\n")
    inspection = inspect(path)
    assert (inspection.header, inspection.form.first_line, inspection.num_rows) == (None, 2, 150)
    path.write_text("\n".join(["150,5,setosa,versicolor,virginica", *rows]) + "\n")
    assert inspect(path).form.first_line == 0


def test_a_wide_table_is_described_by_a_few_short_names(tmp_path, monkeypatch):
    names = [f"feature {number} {'x' * 10_000}" for number in range(300)]
    path = tmp_path / "wide.csv"
    rows = [",".join(f"w{number * row % 97}" for number in range(300)) for row in range(30)]
    path.write_text("\n".join([",".join(names), *rows]))
    inspected, calls = inspect(path, TableSettings(header=True)), []
    monkeypatch.setattr(
        inspection, "column_name", lambda *column: calls.append(column) or column_name(*column)
    )
    lines = inspected.lines()
    assert f"{names[5][:80]}…" in lines[1]
    assert max(map(len, lines)) < 2_000
    assert len(calls) <= 4 * inspection.MAX_NAMES
