"""Pairs as numbers are the same in memory and in a file, and a file that was damaged is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from regard.data.batch import PAD, PairBatch, pair_batch
from regard.data.text.encoded import HEAD, DamagedError, EncodedPairs, read, write

Pairs = list[tuple[list[int], list[int]]]


class Listed:
    """Source of pairs from a list, `at_a_time` pairs in each block."""

    def __init__(self, pairs: Pairs, vocabulary: int = 101, at_a_time: int = 3) -> None:
        self.pairs, self.vocabulary, self.at_a_time = pairs, vocabulary, at_a_time

    has_copies = False

    def parts(self) -> Iterable[EncodedPairs]:
        for first in range(0, len(self.pairs), self.at_a_time):
            yield encoded(self.pairs[first : first + self.at_a_time])

    def about(self) -> str:
        return "größer als"


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


@given(st.data(), st.sampled_from([101, 1 << 16, (1 << 16) + 1, 1 << 24]), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_file_holds_what_was_encoded(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, vocabulary: int, at_a_time: int
) -> None:
    pairs = data.draw(pairs_of(vocabulary - 1))
    path = tmp_path_factory.mktemp("encoded") / "pairs.safetensors"
    write(path, Listed(pairs, vocabulary, at_a_time))
    result, about = read(path)
    expected = encoded(pairs)
    assert about == "größer als"
    assert len(result) == len(expected) == len(pairs)
    assert result.digest == expected.digest
    assert result.numbers.itemsize == (2 if vocabulary <= 1 << 16 else 4)
    indices = np.array(data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1)))
    by_hand = pair_batch([pairs[i][0] for i in indices], [pairs[i][1] for i in indices])
    assert same(result.batch(indices), by_hand)
    assert same(expected.batch(indices), by_hand)


def test_the_file_is_one_that_safetensors_reads(tmp_path: Path) -> None:
    write(tmp_path / "pairs", Listed([([5, 6, 7], [8]), ([9], [10, 11])]))
    arrays = {name: each.tolist() for name, each in load_file(tmp_path / "pairs").items()}
    assert arrays == {
        "numbers": [5, 6, 7, 8, 9, 10, 11],
        "source_lengths": [3, 1],
        "target_lengths": [1, 2],
    }


@given(pairs_of(97), st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_parts_can_be_joined(pairs: Pairs, at_a_time: int) -> None:
    joined = EncodedPairs.joined(Listed(pairs, at_a_time=at_a_time).parts())
    assert joined.digest == encoded(pairs).digest
    assert joined.digest != encoded([*pairs, ([1], [1])]).digest


def test_a_file_may_have_no_pairs(tmp_path: Path) -> None:
    write(tmp_path / "none", Listed([]))
    assert len(read(tmp_path / "none")[0]) == len(EncodedPairs.joined([])) == 0


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


SMALL: Pairs = [([5, 6, 7], [8]), ([9], [10, 11])]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_files_are_rejected(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "pairs"
    write(path, Listed(SMALL))
    content = path.read_bytes()
    place = data.draw(st.one_of(st.integers(0, 600), st.integers(HEAD - 9, len(content) - 1)))
    change = data.draw(st.integers(1, 255))
    flipped = content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
    for damaged in (flipped, content[:place], content + content[place : place + 1]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedError):
            read(path)


def test_other_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    for content in (b"", b"{}", b"\0" * 8 + b"[1]", b"\0" * 8 + b'{"__metadata__": 3}'):
        path.write_bytes(content)
        with pytest.raises(DamagedError):
            read(path)
    with pytest.raises(OSError, match="nothing"):
        read(tmp_path / "nothing")


def test_inconsistent_pairs_are_rejected() -> None:
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        EncodedPairs.of([[1], [2]], [[3]])
    with pytest.raises(ValueError, match="target 1 is empty"):
        EncodedPairs.of([[1], [2]], [[3], []])


def test_pairs_with_numbers_to_copy_are_those_of_the_lists(tmp_path: Path) -> None:
    sources, copies = [[5, 6, 7], [9]], [[30, 31, 30], [2]]
    pairs = EncodedPairs.of(sources, [[8], [10, 31]], copies)

    class Source(Listed):
        has_copies = True

        def parts(self) -> Iterable[EncodedPairs]:
            for row in (0, 1):
                target = [[8], [10, 31]][row]
                yield EncodedPairs.of([sources[row]], [target], [copies[row]])

    write(tmp_path / "pairs", Source([]))
    result, _ = read(tmp_path / "pairs")
    joined = EncodedPairs.joined(Source([]).parts())
    assert result.digest == joined.digest == pairs.digest
    for encoded_pairs in (pairs, joined, result):
        batch = encoded_pairs.batch(np.array([1, 0]))
        assert batch.source.ids.tolist() == [[9, PAD, PAD], [5, 6, 7]]
        assert batch.source.copies is not None
        assert batch.source.copies.tolist() == [[2, PAD, PAD], [30, 31, 30]]
        assert batch.outputs.tolist() == [[10, 31], [8, PAD]]
    assert EncodedPairs.of(sources, [[8], [10, 31]]).digest != pairs.digest
