"""Forms of the numbers of a column."""

from __future__ import annotations

import pytest

from regard.data.recognition.decimals import (
    NumberForm,
    NumberText,
    is_missing,
    may_be_number,
    undecided_mark,
)
from tests.messages import check_message

# fmt: off
COLUMNS = [
    (["14,03", "7"], ["14.03", "7"]),
    (["0,320"], ["0.320"]),
    (["1.234,50", "1,234"], ["1234.50", "1.234"]),
    (["1.693,06", "2.000", "99", ""], ["1693.06", "2000", "99", None]),
    (["1,693.06", "-2,000", "99"], ["1693.06", "-2000", "99"]),
    (["1,693", "12.50"], ["1693", "12.50"]),
    (["1,234,567", "12"], ["1234567", "12"]),
    (["1.234.567", "12"], ["1234567", "12"]),
    (["12,34,567.50", "12,34,567"], ["1234567.50", "1234567"]),
    (["129", "66.161"], ["129", "66161"]),
    (["0", "129", "66.161"], ["0", "129", "66161"]),
    (["1,234", "950"], ["1234", "950"]),
    (["0.5", "66.161", "129"], ["0.5", "66.161", "129"]),
    (["1'234.50", "1’234.50", "7"], ["1234.50", "1234.50", "7"]),
    (["1\N{NO-BREAK SPACE}234,50", "1\N{NARROW NO-BREAK SPACE}234", "1\N{THIN SPACE}234"],
     ["1234.50", "1234", "1234"]),
    (["1 234", "950"], ["1234", "950"]),
    (["12 034", "56 789"], ["12034", "56789"]),
    (["1 234 kg", "2 500 kg"], ["1234", "2500"]),
    (["120 340", "330 220"], ["120 340", "330 220"]),  # two numbers each
    (["120 340 560", "330 220"], ["120 340 560", "330 220"]),
    (["1,5 2,5", "3,5 4"], ["1.5 2.5", "3.5 4"]),
    (["−12.5", "(12.50)", "12.50-", "- 3", "–4"], ["-12.5", "-12.50", "-12.50", "-3", "-4"]),
    (["($5)", "$(5)", "-$5", "$-5", "$5"], ["-5", "-5", "-5", "-5", "5"]),
    (["12,-", "13.–", "14,50"], ["12", "13", "14.50"]),
    (["12,34 %", "3%"], ["12.34", "3"]),
    (["1e5", "1.5E-3"], ["1e5", "1.5E-3"]),
    (["1,5e3", "2"], ["1.5e3", "2"]),
    (["1.234,5 €", "EUR 5", "5 EUR", "€ 7"], ["1234.5", "5", "5", "7"]),
    (["CHF 1'234.50", "Fr. 3"], ["1234.50", "3"]),
    (["١٢٣٫٥", "٧"], ["123.5", "7"]),
    (["12O.5", "< 5", "5-10", "12:30", "½", "1.2.3", "5"], [None] * 6 + ["5"]),
    (["12.03.2024", "192.168.0.1"], [None, None]),
    (["$5", "$6", "€5"], ["5", "6", None]),
]
# fmt: on


@pytest.mark.parametrize(("cells", "numbers"), COLUMNS)
def test_numbers_of_a_column_are_read_alike(cells, numbers):
    form = NumberForm.of(cells)
    assert list(map(form.plain_words, cells)) == numbers
    assert not form.undecided


@pytest.mark.parametrize(
    ("cells", "mark", "usual", "number"),
    [
        (["66.161", "12.325"], None, "point", "66.161"),
        (["66.161", "12.325"], None, "comma", "66.161"),
        (["66.161", "12.325"], "comma", "point", "66161"),
        (["66.161", "12.325"], "point", "point", "66.161"),
        (["66,161", "12,325"], None, "point", "66161"),
        (["66,161", "12,325"], None, "comma", "66.161"),
        (["66,161", "12,325"], "comma", "point", "66.161"),
        (["66.161", "129"], "point", "comma", "66.161"),
        (["66.161", "0"], None, "point", "66.161"),
        (["66.161", "1234"], None, "point", "66.161"),
        (["66.161", "12.5"], "comma", "comma", "66.161"),  # the cells decide
        ([NumberText("66.161"), "129"], "comma", "comma", "66.161"),
    ],
)
def test_the_option_decides_what_the_cells_leave_open(cells, mark, usual, number):
    form = NumberForm.of(cells, mark, usual)
    assert form.plain(cells[0]) == number
    assert bool(undecided_mark(form, cells, "e.tsv, column n")) == (mark is None)


def test_an_undecided_mark_is_reported_with_the_option():
    cells = ["-66.161", "12.325"]
    check_message(undecided_mark(NumberForm.of(cells), cells, "e.tsv, column n"))


@pytest.mark.parametrize(
    ("cells", "fits"),
    [
        (["5"] * 95 + ["12O.5"] * 5, True),
        (["5"] * 94 + ["12O.5"] * 6, False),
        (["5"] * 60 + ["n/a", "-", "?", ""] * 10, True),
        (["5"] + ["n/a"] * 10, False),
        (["n/a", ""], False),
        (["$5"] * 60 + ["€5"] * 40, True),  # reported when the rows are read
        (["5 kg"] * 60 + ["500 g"] * 40, True),
        (["5"] * 60 + ["5 red"] * 40, False),
        (["12"] * 60 + ["12b"] * 40, False),
        (["1st", "2nd", "3rd"] * 10, False),
        ([f"{n} u{'abcde'[n % 5]}" for n in range(50)], False),
        (["0.5 0.2"] * 30, False),
    ],
)
def test_a_few_other_cells_do_not_change_a_column_of_numbers(cells, fits):
    assert NumberForm.of(cells).fits == fits


@pytest.mark.parametrize(
    ("cells", "title"),
    [
        (["14,03"], "decimal commas"),
        (["129", "66.161"], "points between thousands"),
        (["129", "66,161"], "commas between thousands"),
        (["14.03", "1'234"], ""),
        (["14.03", "14.50", "3,50"], ""),
    ],
)
def test_marks_have_a_title(cells, title):
    assert NumberForm.of(cells).title == title


def test_missing_values_and_numbers_of_any_form():
    assert all(map(is_missing, ["", " ", "n/a", "NaN", "NULL", "-", "−", "?", "#N/A"]))
    assert not any(map(is_missing, ["0", "no", "12O.5"]))
    assert all(map(may_be_number, ["5", "1,5", "1.234,5", "1 234", "5 kg", "-$5", "٧"]))
    assert not any(map(may_be_number, ["", "a", "1.2.3", "5-10", "12:30", "nan"]))


@pytest.mark.parametrize(
    ("cell", "fault"), [("n/a", "missing value"), ("12O.5", "no number"), ("€5", "other number")]
)
def test_a_cell_that_is_no_number_has_a_reason(cell, fault):
    form = NumberForm.of(["$5", "$7.50", cell])
    assert form.plain(cell) is None
    assert form.fault(cell) == fault


@pytest.mark.parametrize(
    "cell", ["1e400", "-1E+400", "9" * 400, *map(NumberText, ["inf", "-Infinity", "1e400", "sNaN"])]
)
def test_a_number_that_is_not_finite_is_left_out(cell):
    kind = type(cell)
    cells = [kind(f"{number}.5") for number in range(30)] + [cell]
    form = NumberForm.of(cells)
    assert form.fits
    assert not form.is_plain
    assert [form.plain(cell) for cell in cells] == [*cells[:-1], None]
    assert form.num_others == 1
