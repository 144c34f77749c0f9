"""Scores of labels and numbers, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from regard.metrics.classification import (
    Confusion,
    accuracy,
    macro_f1,
    mean_error,
    r2,
    root_mean_square_error,
)

FOUND, WANTED = list("aabbc"), list("abbba")


def test_labels_are_counted_in_a_table():
    table = Confusion.of(FOUND, WANTED, "ab")
    assert table.labels == ("a", "b", "c")
    assert table.counts.tolist() == [[1, 0, 1], [1, 2, 0], [0, 0, 0]]
    np.testing.assert_allclose(table.precisions, [1 / 2, 1, 0])
    np.testing.assert_allclose(table.recalls, [1 / 2, 2 / 3, 0])
    np.testing.assert_allclose(table.f1, [1 / 2, 4 / 5, 0])


def test_accuracy_and_macro_f1():
    assert accuracy(FOUND, WANTED).value == 60
    assert macro_f1(FOUND, WANTED).value == pytest.approx(100 * (0.5 + 0.8) / 3)
    with pytest.raises(ValueError, match="expected equal numbers"):
        accuracy(FOUND, WANTED[1:])


def test_regression_scores_equal_values_worked_out_by_hand():
    result, wanted = ["1 5", "2 5", "6 5"], ["1 5", "3 5", "5 5"]
    assert mean_error(result, wanted).value == pytest.approx(2 / 6)
    assert root_mean_square_error(result, wanted).value == pytest.approx((2 / 6) ** 0.5)
    assert r2(result, wanted).value == pytest.approx(100 * ((1 - 2 / 8) + 1) / 2)
    assert r2(["3", "3", "3"], ["1", "3", "5"]).value == 0
