"""The first row: names of columns are not trained on, and pairs are not taken for names."""

from __future__ import annotations

import pytest

from regard.data.files.inspection import inspect
from tests.data.files.test_headers import read

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
