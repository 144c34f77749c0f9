"""Rows that are no examples."""

from __future__ import annotations

import pytest

from regard.data.files.tables import Row, TableSettings
from regard.data.labels.readers import read_labelled
from regard.data.recognition.inspection import inspect
from regard.data.recognition.other_rows import marked, without_other_rows
from regard.data.text.parallel import read_pairs
from tests.messages import check_message

WORDS = ["river", "stone", "cat", "dog", "walk", "run", "blue", "green"]
VALUES = [("text", "price"), *((f"{WORDS[n % 8]} box {n}", f"{n}.50") for n in range(40))]
LABELS = [("text", "label"), *((f"{WORDS[n % 8]} is {n}", "ab"[n % 2]) for n in range(40))]
PAIRS = [
    ("source", "target"),
    *((f"{WORDS[n % 8]} {n}", f"{WORDS[-n % 8]} {n}") for n in range(40)),
]
BLANK = ("", "")
WORDS_FOR_TOTALS = ["कुल", "المجموع", "合計", "Итого", "합계", "Σύνολο", "총계", "小计"]


def faults(rows):
    return [
        (number, row.fault)
        for number, row in enumerate(marked(Row(tuple(cells), 0) for cells in rows))
        if row.fault
    ]


@pytest.mark.parametrize(
    "end",
    [
        [("Total", "412.50")],
        [("TOTAL:", "412.50"), ("Mean", "20.3"), ("Median", "n/a")],
        [BLANK, ("Summe", "1.234,50 €"), BLANK],
        [("Grand total", "412.50"), ("# made by hand, today", "x y")],
        [("итого", "412")],
        [BLANK, ("Total", "412"), BLANK, ("# source: the office", ""), ("# a note", "")],
        [("合计", "412")],
        [("Total (EUR)", "412.50")],
        [("Grand Total: 40 items", "412.50")],
        *([(word, "412")] for word in WORDS_FOR_TOTALS),
    ],
)
def test_summaries_at_the_end_are_no_examples(end):
    expected = len([row for row in end if any(row) and not row[0].startswith("#")])
    assert [fault for _, fault in faults([*VALUES, *end])].count("summary") == expected
    assert not faults(VALUES)


@pytest.mark.parametrize(
    "rows",
    [
        [*VALUES, ("Total recall, a film", "12.5")],
        [*VALUES[:20], ("Total", "12.5"), *VALUES[20:]],  # a subtotal may be an example
        [*LABELS, ("Total", "a")],
        [*PAIRS, ("total", "Summe")],
        [
            ("word", "score"),
            *((word * n, f"{n}") for n in range(1, 9) for word in WORDS),
            ("mean", "3"),
        ],
        [("a", "1"), ("Total", "1")],
    ],
)
def test_rows_that_may_be_examples_stay(rows):
    assert not faults(rows)


def test_short_rows_at_the_end_are_summaries_if_they_name_one_or_lack_their_first_cell():
    rows = [("1", "a", "b", "c", "2")] * 30
    total = ("", "", "", "sum", "60")
    assert without_other_rows([*rows, total, total]) == rows
    assert without_other_rows([*rows, total, *rows]) == [*rows, total, *rows]
    assert len(without_other_rows([*rows, *[total] * 9])) == 34
    assert len(without_other_rows([*rows[:3], total])) == 4
    assert len(without_other_rows([*rows, ("31", "text", "", "", "")])) == 31
    assert len(without_other_rows([("word", "form")] * 30)) == 30


@pytest.mark.parametrize("place", [0, 1, 20, 41])
@pytest.mark.parametrize("table", [VALUES, LABELS, PAIRS])
@pytest.mark.parametrize(
    "start", ["# exported by x", "-- export of today", "% made with y", "; a note"]
)
def test_comments_with_delimiters_are_no_examples(place, table, start):
    rows = [*table[:place], (start, "2024-03-01"), *table[place:]]
    assert faults(rows) == [(place, "comment")]


@pytest.mark.parametrize("table", [VALUES, LABELS, PAIRS])
@pytest.mark.parametrize("rule", ["---", "=====", ":---:", "...", "…"])
def test_lines_of_punctuation_are_no_examples(table, rule):
    assert faults([table[0], (rule, rule), *table[1:]]) == [(1, "comment")]
    assert faults([*table[:20], (rule, rule), *table[20:]]) == [(20, "comment")]
    assert not faults([*table, (rule, "a")])


def test_punctuation_is_an_example_among_others():
    assert not faults([("source", "target"), *(("-" * n, "=" * n) for n in range(3, 40))])


@pytest.mark.parametrize("name", ["Subtotal", "subtotal", "Sub-Total", "Zwischensumme"])
def test_subtotals_inside_a_table_are_no_examples(name):
    rows = [*VALUES[:20], (name, "212.50"), *VALUES[20:], (name, "200")]
    assert faults(rows) == [(20, "summary"), (42, "summary")]
    assert not faults([*LABELS[:20], (name, "a"), *LABELS[20:]])


@pytest.mark.parametrize(
    "rows",
    [
        [*LABELS, ("#tbt at the beach", "a"), ("# tbt at the beach", "a")],
        [*PAIRS, ("# How to start", "# Wie man beginnt"), ("-- Yes, he said", "-- Ja, sagte er")],
        [(f"# Title number {n}", f"Titel Nummer {n}") for n in range(40)],
        [("source", "target"), *((f"-- Line {n} of it", f"Zeile {n}") for n in range(40))],
    ],
)
def test_texts_that_begin_as_comments_stay(rows):
    assert not faults(rows)


def test_a_second_table_is_left_out_up_to_the_first_header():
    second = [BLANK, ("product", "stock"), ("cup", "5"), ("pan", "7")]
    assert faults([*VALUES, *second]) == [(n, "other table") for n in (42, 43, 44)]
    again = faults([*VALUES, *second, BLANK, ("Text ", "Price"), ("jug", "3")])
    assert again[-1] == (46, "repeated header")
    assert not faults([*VALUES[:20], BLANK, BLANK, *VALUES[20:]])
    assert faults([*LABELS, BLANK, ("sentence", "category"), ("x", "y")])[0] == (42, "other table")
    assert not faults([*PAIRS, BLANK, ("eins", "one")])


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_readers_and_inspection_leave_these_rows_out(tmp_path, suffix):
    path, mark = tmp_path / f"table{suffix}", {".csv": ",", ".tsv": "\t"}[suffix]
    comment, total = ("# exported by x 1.2", "2024-03-01"), ("Total", "412.50")
    for name, table in (("values", VALUES), ("pairs", PAIRS), ("plain", PAIRS[1:])):
        ends = [total] if name == "values" else []
        path.write_text("\n".join(map(mark.join, [*table[:9], comment, *table[9:], *ends])) + "\n")
        if name == "values":
            corpus = read_labelled(path, TableSettings(), None)
            assert inspect(path).roles.title == "values (a number for each text)"
            check_message(*corpus.left_out.summary())
        else:
            corpus = read_pairs(path, settings=TableSettings())
            assert "1 with a comment (line 10)" in corpus.left_out.summary()[0]
        assert len(corpus.pairs) == 40


@pytest.mark.parametrize("head", [("text", "label"), ("English", "German")])
def test_a_joined_file_with_the_columns_in_another_order_is_a_second_table(head):
    rows = [head, *[(f"a text {n}", "AB"[n % 2]) for n in range(300)]]
    other = [head[::-1], *[("AB"[n % 2], f"a text {n}") for n in range(300)]]
    table = [Row(tuple(cells), 0) for cells in (*rows, *other, *rows)]
    faults = [row.fault for row in marked(table)]
    assert faults == [None] * 301 + ["other table"] * 301 + ["repeated header"] + [None] * 300


def test_a_swapped_pair_of_a_word_list_stays():
    rows = [("dog", "Hund"), *[(f"a{n}", f"b{n}") for n in range(50)], ("Hund", "dog"), ("c", "d")]
    assert not any(row.fault for row in marked([Row(cells, 0) for cells in rows]))
