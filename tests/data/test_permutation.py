"""Every size is permuted, and all orders are equally frequent."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.permutation import permuted


def whole(size, key):
    ones = np.ones(size, np.uint64)
    return permuted(np.arange(size), ones * np.uint64(size), ones * np.uint64(key))


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_each_place_occurs_once(size, key):
    assert sorted(whole(size, key).tolist()) == list(range(size))


def test_places_of_several_permutations_are_computed_together():
    sizes, keys = np.array([7, 1000, 7]), np.array([3, 5, 4], np.uint64)
    moved = permuted(np.array([6, 600, 6]), sizes, keys)
    assert moved.tolist() == [whole(7, 3)[6], whole(1000, 5)[600], whole(7, 4)[6]]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_orders_of_a_small_set_are_equally_frequent(size):
    count = 4000
    keys = np.repeat(np.arange(count, dtype=np.uint64), size)
    moved = permuted(np.tile(np.arange(size), count), np.full(count * size, size), keys)
    orders = [tuple(row) for row in moved.reshape(count, size).tolist()]
    possible = list(permutations(range(size)))
    expected = count / len(possible)
    chi_squared = sum((orders.count(order) - expected) ** 2 / expected for order in possible)
    assert chi_squared < 2 * len(possible) + 20  # exceeded by chance in one of 10,000 choices


def test_pairs_of_places_are_independent():
    """Neighbours in a large set land anywhere: the correlation of their places is within noise."""
    size, count = 1 << 40, 20_000
    keys = np.repeat(np.arange(count, dtype=np.uint64), 2)
    moved = permuted(np.tile([12, 13], count), np.full(2 * count, size), keys).reshape(count, 2)
    correlation = np.corrcoef(moved.T / size)[0, 1]
    assert abs(correlation) < 5 / np.sqrt(count)
    assert abs(moved.mean() / size - 0.5) < 0.01
