"""Numbers about maps, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.attention import coverage, diagonality, entropy, share_on_diagonal


def test_entropy_of_each_row() -> None:
    weights = np.array([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.25, 0.25, 0], [0] * 4, [2, 2, 0, 0]])
    expected = [0, math.log(4), 1.5 * math.log(2), 0, math.log(2)]
    np.testing.assert_allclose(entropy(weights), expected, atol=1e-12)
    assert entropy(np.ones((2, 3, 5, 7), np.float32)).shape == (2, 3, 5)


def test_coverage_is_the_sum_of_the_weights() -> None:
    weights = np.array([[0.5, 0.5, 0], [1, 0, 0]], np.float32)
    np.testing.assert_array_equal(coverage(weights), [1.5, 0.5, 0])


def loop(weights: np.ndarray) -> float:
    """One minus the mean distance to the diagonal, relative to that of even weights."""
    rows, columns = weights.shape
    mass = even = total = 0.0
    for row in range(rows):
        for column in range(columns):
            distance = abs((row + 0.5) / rows - (column + 0.5) / columns)
            mass += float(weights[row, column]) * distance
            total += float(weights[row, column])
            even += distance / (rows * columns)
    return 1 - mass / total / even


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(2, 7), st.integers(0, 99))
def test_diagonality_equals_a_plain_loop(rows: int, columns: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((rows, columns), dtype=np.float32)
    assert diagonality(weights) == pytest.approx(loop(weights), abs=1e-6)


def test_diagonality_distinguishes_the_diagonals() -> None:
    copying, even = np.eye(7), np.full((7, 7), 1 / 7)
    assert diagonality(copying) == 1
    assert diagonality(copying[:, ::-1]) < -0.4
    assert diagonality(even) == pytest.approx(0)
    assert diagonality(np.repeat(np.eye(5), 2, axis=0)) > 0.8
    assert diagonality(np.ones((1, 1))) == 1
    with pytest.raises(ValueError, match="positive sum"):
        diagonality(np.zeros((3, 2)))


def test_share_on_diagonal_counts_rows() -> None:
    weights = np.array([[0.6, 0.4], [0.7, 0.3], [0.1, 0.9]])
    assert share_on_diagonal(weights) == pytest.approx(1 / 3)
    assert share_on_diagonal(np.eye(5)[:, ::-1][:, ::-1]) == 1
    assert share_on_diagonal(np.eye(5)[:, ::-1]) == pytest.approx(1 / 5)
    with pytest.raises(ValueError, match="rows and columns"):
        share_on_diagonal(np.zeros((0, 3)))
