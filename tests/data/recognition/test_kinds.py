"""Kinds of columns."""

from __future__ import annotations

import pytest

from regard.data.recognition.decimals import NumberForm
from regard.data.recognition.kinds import is_informative, kind_of


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "", "2.5", "-3e5"], "number"),
        (["2026-03-01", "01.03.2026", "3/1/2026", "1. März 2026", "March 1, 2026"], "date"),
        (["2026-03-01T10:00:00Z", "1.3.2026 10:05", "10:30", "00:01:02,500"], "date"),
        (["0.1 0.2", "1 2 3"], "series"),
        (["cola 1.20; bread 0.80", "tea 2"], "items"),
        (["00017", "00394", "12000"], "code"),
        ([*map(str, range(10117, 10177)), "01067"], "code"),
        (["A00017", "P-1234-XL", "978-3-16-148410-0", "DE89 3704 0044 0532 0130"], "code"),
        (["https://example.org/a", "www.example.org", "anna@example.org"], "code"),
        (["0a1b2c3d-17", "1.2-3", "+49 40 123456"], "code"),
        (["pain since 3 days", "ma1", "H2O and CO2", "Anna"], "text"),
        (["10.05 at the station", "see www.example.org", "costs 3.50"], "text"),
    ],
)
def test_kind_of_a_column(cells, kind):
    assert kind_of(cells, NumberForm.of(cells)) == kind


def test_long_cells_take_no_long_time():
    assert kind_of(["@." * 10**5, "a@" * 10**5, "A" * 10**5], NumberForm()) == "text"


def test_few_other_cells_do_not_change_a_kind():
    assert kind_of([*["2026-03-01"] * 20, "unknown"], NumberForm()) == "date"
    assert kind_of([*["2026-03-01"] * 5, "unknown"], NumberForm()) == "text"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["a", "b", "a", ""], True),
        (["a", "", "", "b"], False),
        (["a", "a", "a", "a"], False),
        (["1", "2", "3", "4"], False),
        (["3", "1", "4", "2"], False),
        (["3", "1", "5", "7"], True),
        (["3", "1", "4", "4"], True),
        (["30", "1", "4", "7"], True),
    ],
)
def test_columns_without_information(cells, expected):
    assert is_informative(cells) == expected
