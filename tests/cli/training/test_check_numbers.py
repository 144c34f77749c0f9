"""`regard check` of columns of numbers."""

from __future__ import annotations

import random

import pytest

from tests.cli.test_commands import regard
from tests.messages import check_message

WORDS = ["river", "stone", "cat", "dog", "walks", "runs", "blue", "green", "happy", "sad"]


@pytest.fixture
def check(tmp_path, capsys):
    """Function that writes texts with these cells and returns the status and the report."""

    def run(cells, *options, name="table.tsv"):
        draw, path = random.Random(1), tmp_path / name
        rows = (
            f"{' '.join(draw.choices(WORDS, k=5))} {n}\t{cell}\n" for n, cell in enumerate(cells)
        )
        path.write_text("text\tprice\n" + "".join(rows), encoding="utf8")
        status, out, _ = regard(capsys, "check", str(path), *options)
        return status, out

    return run


def test_rows_that_are_no_numbers_are_listed_and_change_no_task(check):
    status, out = check(["12O.5", "n/a", *(f"{n}.25" for n in range(118)), "< 5"])
    assert status == 0
    check_message(out)


@pytest.mark.parametrize(
    "cells",
    [
        [*(f"{n}.25" for n in range(50)), *["on request"] * 10],
        [f"{n}.5k" if n % 3 else f"{n}.5M" for n in range(60)],
        [f"1.{n + 100}.000" if n % 2 else f"{n}.25" for n in range(60)],
    ],
)
def test_numbers_of_several_forms_are_no_silent_pairs(check, cells):
    check_message(check(cells)[1])
    status, out = check(cells, "--target", "number")
    assert status == 1
    check_message(out)


def test_words_are_no_numbers_even_if_the_option_says_so(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"good {n},{'ab'[n % 2]}\n" for n in range(60)))
    status, _, error = regard(capsys, "check", str(path), "--target", "number")
    assert status == 1
    assert "60 with another text in place of a number" in error


def test_several_units_stop_the_training(check):
    status, out = check([f"{'$€'[n % 2]}{n}" for n in range(60)])
    assert status == 1
    check_message(out)


def test_an_undecided_decimal_mark_is_reported_with_its_option(check):
    cells = [f"{n}.234" for n in range(1, 61)]
    status, out = check(cells)
    assert status == 0
    check_message(out)
    status, out = check(cells, "--decimal-mark", "comma")
    assert status == 0
    check_message(out)


def test_whole_numbers_without_points_show_that_points_divide_thousands(check):
    status, out = check([cell for n in range(60) for cell in (f"{n + 100}", f"{n + 5}.161")])
    assert status == 0
    assert "targets from 100 to 64161" in out


@pytest.mark.parametrize("header", ["basket\tprice\n", ""])
def test_baskets_may_have_units_a_header_and_a_wrong_row(tmp_path, capsys, header):
    path = tmp_path / "shop.tsv"
    rows = [f"Pepsi 0.{n}$; Coke 1.{n}$\t{n}.01$\n" for n in range(10, 70)]
    rows[7] = "a basket without a price\t5$\n"
    path.write_text(header + "".join(rows))
    status, out, _ = regard(capsys, "check", str(path))
    assert status == 0
    check_message(out)
