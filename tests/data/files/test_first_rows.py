"""The first row: names of columns are not trained on, and pairs are not taken for names."""

from __future__ import annotations

import pytest

from regard.data.recognition.inspection import inspect
from regard.errors import UserError
from tests.data.files.test_headers import read
from tests.messages import raises

PAIRS = (
    "house Haus|tree Baum|dog Hund|cat Katze|river Fluss|stone Stein|bread Brot|water Wasser|"
    "green grün|happy froh|window Fenster|door Tür|street Straße|school Schule|book Buch|"
    "table Tisch|chair Stuhl|light Licht|night Nacht|day Tag|year Jahr|city Stadt|love Liebe"
)
WORDS = [tuple(pair.split()) for pair in PAIRS.split("|")]
SENTENCES = [(f"the {a} is near {c}", f"das {b} ist bei {d}") for a, b in WORDS for c, d in WORDS]
NUMBERS = [(str(n), str(2 * n + 1)) for n in range(1, 40)]


def inspected(tmp_path, rows, name="a.tsv"):
    path = tmp_path / name
    delimiter = "," if path.suffix == ".csv" else "\t"
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
    return inspect(path), [(pair.source, pair.target) for pair in read(path).pairs]


@pytest.mark.parametrize(
    "first",
    [
        *(("text", "Text"), ("source", "Quelle"), ("sentence", "Satz"), ("label", "Etikett")),
        *(("word", "Wort"), ("target", "Ziel"), ("form", "Form"), ("question", "Frage")),
        *(("number", "Zahl"), ("no", "nein"), ("a", "ein"), ("one", "eins"), ("1", "eins")),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_first_pair_of_a_word_list_is_read(tmp_path, first, name):
    inspection, pairs = inspected(tmp_path, [first, *WORDS], name)
    assert (inspection.header, pairs) == (None, [first, *WORDS])
    is_named = first[0] not in ("no", "a", "one", "1")
    line = f"{name}: the first row ({first[0]}, {first[1]}) is read as an example; if it names the "
    assert (inspection.lines()[-1] == f"{line}columns: --data.header") == is_named


@pytest.mark.parametrize(
    ("first", "is_certain"),
    [
        *((("English", "German"), True), (("Englisch", "Deutsch"), True), (("Q", "A"), True)),
        *((("singular", "plural"), True), (("term", "definition"), True)),
        *((("word", "German"), True), (("English (source)", "German (target)"), True)),
        *((("English", "Englisch"), False), (("French", "Französisch"), False)),
        *((("en", "de"), False), (("eng", "deu"), False), (("en_US", "de-DE"), False)),
        *((("0", "1"), False), (("1", "2"), False), (("2023", "2024"), False)),
    ],
)
@pytest.mark.parametrize("rows", [WORDS, SENTENCES])
def test_a_header_is_no_pair(tmp_path, rows, first, is_certain):
    inspection, pairs = inspected(tmp_path, [first, *rows])
    assert (inspection.header, pairs) == (first, rows)
    line = f"a.tsv: the first row ({first[0]}, {first[1]}) names the columns; if it is an example: "
    assert (inspection.lines()[-1] == f"{line}--data.no-header") == (not is_certain)


def test_numbers_above_numbers(tmp_path):
    for first, is_header in ((("2023", "2024"), True), (("0", "1"), False), (("5", "7"), False)):
        inspection, pairs = inspected(tmp_path, [first, *NUMBERS])
        assert (inspection.header is not None, len(pairs)) == (is_header, 40 - is_header)
    years = [(str(n), str(n + 1)) for n in range(1950, 2000)]
    assert inspected(tmp_path, years)[0].header is None


def test_a_list_of_languages_has_no_header(tmp_path):
    rows = [("German", "Deutsch"), ("English", "Englisch"), ("French", "Französisch"), *WORDS]
    assert inspected(tmp_path, rows)[1] == rows


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ([("English", "German"), ("(source)", "(target)")], "line 2 ((source), (target))"),
        ([("word", "translation"), ("en", "de")], "line 2 (en, de)"),
        ([("Language pair", ""), ("English", "German")], "line 1 (Language pair)"),
        ([("", "My words"), ("word", "translation")], "line 1 (My words)"),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_header_of_two_lines_is_not_read(tmp_path, head, shown, name):
    inspection, pairs = inspected(tmp_path, [*head, *WORDS], name)
    assert pairs == WORDS
    assert f"{name}: rows above the table that are not read: {shown}" in inspection.lines()


@pytest.mark.parametrize("number", [1100, 10_000, 50_000])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_blank_lines_above_a_table_do_not_count(tmp_path, number, name):
    path = tmp_path / name
    delimiter = "," if name == "a.csv" else "\t"
    rows = "".join(f"{delimiter.join(row)}\n" for row in (("source", "target"), *WORDS))
    path.write_text("\n" * number + rows)
    assert inspect(path).header == ("source", "target")
    assert [(pair.source, pair.target) for pair in read(path).pairs] == WORDS


@pytest.mark.parametrize(
    ("rows", "first_line"),
    [
        (["Calls in March;", "As of 2024-04-01;", "", "Text;Kategorie"], 4),
        (["Branch;Bonn", "", "Text;Kategorie"], 1),  # as many cells as the table: no title
        (["Text;Kategorie"], 1),
    ],
)
def test_titles_of_excel_have_blank_cells_beside_them(tmp_path, rows, first_line):
    path = tmp_path / "a.csv"
    body = [f"a text {n} of a call;{'AB'[n % 2]}" for n in range(40)]
    path.write_text("\n".join([*rows, *body]) + "\n")
    assert max(inspect(path).form.first_line, 1) == first_line


def test_titles_of_excel_in_a_wide_table(tmp_path):
    path = tmp_path / "a.csv"
    body = [f"{n};a text {n} of a call;{'AB'[n % 2]};{'xyz'[n % 3]}" for n in range(40)]
    head = ["Branch;Bonn;;", "As of;2024-04-01;;", "No;Text;Category;Place"]
    path.write_text("\n".join([*head, *body]) + "\n")
    inspection = inspect(path)
    assert inspection.header == ("No", "Text", "Category", "Place")
    assert "lines 1, 2" in inspection.titles


def test_most_rows_with_more_cells_than_the_header_stop(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"a text {n}{', too' if n % 5 else ''},{'AB'[n % 2]}" for n in range(50)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    with raises(UserError):
        inspect(path)
    rows = [f"a text {n}{'' if n % 5 else ', too'},{'AB'[n % 2]}" for n in range(50)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    assert inspect(path).roles.recipe == "labels"
