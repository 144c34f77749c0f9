"""Encoded pairs are the pairs of the lists, in batches, in other orders and joined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import PAD, PairBatch, pair_batch
from regard.data.text.pairs.encoded import EncodedPairs

Pairs = list[tuple[list[int], list[int]]]


def encoded(pairs: Pairs) -> EncodedPairs:
    return EncodedPairs.of([source for source, _ in pairs], [target for _, target in pairs])


def same(one: PairBatch, other: PairBatch) -> bool:
    return all(
        each.equal(its)
        for each, its in [
            (one.source.ids, other.source.ids),
            (one.source.mask, other.source.mask),
            (one.inputs, other.inputs),
            (one.outputs, other.outputs),
            (one.mask, other.mask),
        ]
    )


def pairs_of(largest: int) -> st.SearchStrategy[Pairs]:
    sequences = st.lists(st.integers(1, largest), min_size=1, max_size=7)
    return st.lists(st.tuples(sequences, sequences), min_size=1, max_size=13)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_batches_and_taken_pairs_are_those_of_the_lists(data: st.DataObject) -> None:
    pairs = data.draw(pairs_of(1 << 20))
    numbers = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1))
    indices, chosen = np.array(numbers), [pairs[number] for number in numbers]
    by_hand = pair_batch([source for source, _ in chosen], [target for _, target in chosen])
    assert same(encoded(pairs).batch(indices), by_hand)
    assert encoded(pairs).taken(indices).digest == encoded(chosen).digest
    assert [encoded(pairs).pair(number) for number in numbers] == chosen


@given(pairs_of(97), st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_parts_can_be_joined(pairs: Pairs, at_a_time: int) -> None:
    parts = [pairs[first : first + at_a_time] for first in range(0, len(pairs), at_a_time)]
    joined = EncodedPairs.joined(map(encoded, parts))
    assert joined.digest == encoded(pairs).digest
    assert joined.digest != encoded([*pairs, ([1], [1])]).digest
    assert len(EncodedPairs.joined([])) == 0


def test_different_pairs_have_different_digests() -> None:
    """A number may not slip from a source to its target, or to the next pair, unnoticed."""
    several: list[Pairs] = [
        [([1, 2], [3, 4])],
        [([1, 2, 3], [4])],
        [([1], [2]), ([3], [4])],
        [([1], [2, 3, 4])],
        [([1, 2], [4, 3])],
    ]
    assert len({encoded(pairs).digest for pairs in several}) == len(several)


def test_inconsistent_pairs_are_rejected() -> None:
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        EncodedPairs.of([[1], [2]], [[3]])
    with pytest.raises(ValueError, match="target 1 is empty"):
        EncodedPairs.of([[1], [2]], [[3], []])


def test_pairs_with_numbers_to_copy_are_those_of_the_lists() -> None:
    sources, copies = [[5, 6, 7], [9]], [[30, 31, 30], [2]]
    pairs = EncodedPairs.of(sources, [[8], [10, 31]], copies)

    parts = [
        EncodedPairs.of([sources[row]], [[[8], [10, 31]][row]], [copies[row]]) for row in (0, 1)
    ]
    joined = EncodedPairs.joined(parts)
    assert joined.digest == pairs.digest
    for encoded_pairs in (pairs, joined, pairs.taken(np.array([0, 1]))):
        batch = encoded_pairs.batch(np.array([1, 0]))
        assert batch.source.ids.tolist() == [[9, PAD, PAD], [5, 6, 7]]
        assert batch.source.copies is not None
        assert batch.source.copies.tolist() == [[2, PAD, PAD], [30, 31, 30]]
        assert batch.outputs.tolist() == [[10, 31], [8, PAD]]
    assert EncodedPairs.of(sources, [[8], [10, 31]]).digest != pairs.digest
