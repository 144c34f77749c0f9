"""Every pair once an epoch, little padding, and an order that can be taken up again."""

from __future__ import annotations

from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import END, PairBatch, pair_batch
from regard.data.batching import BatchSettings, PairBatches
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.parallel import read_pairs
from regard.errors import UserError


def pairs_of(number: int, seed: int = 1) -> tuple[list[list[int]], list[list[int]]]:
    """Sources that begin with a number of their own; targets of about their length."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 41, size=number)
    sources = [[4 + i, *random.integers(4, 97, n).tolist(), END] for i, n in enumerate(lengths)]
    targets = [
        [*random.integers(4, 89, max(1, n + random.integers(-3, 4))).tolist(), END] for n in lengths
    ]
    return sources, targets


def batches_of(
    sources: list[list[int]], targets: list[list[int]], settings: BatchSettings, seed: int = 1
) -> PairBatches:
    return PairBatches(EncodedPairs.of(sources, targets), settings, seed)


def same(one: PairBatch, other: PairBatch) -> bool:
    return (
        torch.equal(one.source.ids, other.source.ids)
        and torch.equal(one.source.mask, other.source.mask)
        and torch.equal(one.inputs, other.inputs)
        and torch.equal(one.outputs, other.outputs)
        and torch.equal(one.mask, other.mask)
    )


def places(batches: list[PairBatch]) -> list[int]:
    return [int(number) - 4 for batch in batches for number in batch.source.ids[:, 0]]


sequences = st.lists(st.integers(1, 97), min_size=1, max_size=13)


@given(
    st.lists(st.tuples(sequences, sequences), max_size=31),
    st.builds(
        BatchSettings, st.one_of(st.none(), st.integers(1, 101)), st.integers(1, 7), st.booleans()
    ),
    st.integers(0, 5),
)
@settings(max_examples=100, deadline=None)
def test_every_pair_occurs_once_and_batches_respect_their_limits(
    pairs: list[tuple[list[int], list[int]]], limits: BatchSettings, number: int
) -> None:
    batches = batches_of(
        [source for source, _ in pairs], [target for _, target in pairs], limits, seed=3
    )
    result = []
    for batch in batches.epoch(number):
        size = len(batch.mask)
        assert limits.sentences
        assert size <= limits.sentences
        assert not limits.equal_lengths or batch.source.mask.all()
        positions = batch.source.mask.numel() + batch.mask.numel()
        assert size == 1 or limits.tokens is None or positions <= limits.tokens
        for row in range(size):
            source = batch.source.ids[row][batch.source.mask[row]].tolist()
            result.append((source, batch.outputs[row][batch.mask[row]].tolist()))
    assert sorted(result) == sorted(pairs)
    assert batches.num_batches(number) == sum(1 for _ in batches.epoch(number))


def test_batches_equal_those_of_pair_batch() -> None:
    sources, targets = pairs_of(89)
    batches = batches_of(sources, targets, BatchSettings(tokens=211), 7)
    for batch in batches.epoch(0):
        chosen = places([batch])
        assert same(batch, pair_batch([sources[i] for i in chosen], [targets[i] for i in chosen]))


@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=53),
    st.builds(BatchSettings, st.integers(1, 47), st.one_of(st.none(), st.integers(1, 7))),
)
@settings(max_examples=100, deadline=None)
def test_batches_equal_an_example_worked_out_by_hand(
    lengths: list[tuple[int, int]], limits: BatchSettings
) -> None:
    """One pair after the other. A batch that the next would make too large is cut to a round
    number, from whose rest the next one begins."""
    batches = batches_of([[4] * s for s, _ in lengths], [[4] * t for _, t in lengths], limits)
    by_hand: list[int] = []
    batch: list[tuple[int, int]] = []
    for pair in sorted(lengths, reverse=True):
        while batch and too_large([*batch, pair], limits):
            by_hand.append(round_number(len(batch)))
            batch = batch[by_hand[-1] :]
        batch.append(pair)
    assert [len(each.indices) for each in batches.in_order()] == [*by_hand, len(batch)]


def too_large(batch: list[tuple[int, int]], limits: BatchSettings) -> bool:
    positions = len(batch) * sum(map(max, zip(*batch, strict=True)))
    return positions > (limits.tokens or positions) or len(batch) > (limits.sentences or len(batch))


def round_number(size: int) -> int:
    """Return the size with three binary digits, but no finer than sixteen."""
    digits = next(digits for digits in range(1, 65) if size < 2**digits)
    finest = min(16, 2 ** max(0, digits - 3))
    return size // finest * finest


def test_batches_are_as_large_as_their_limits_allow() -> None:
    sources, targets = pairs_of(497)
    limit = 503
    in_order = list(batches_of(sources, targets, BatchSettings(tokens=limit), 7).in_order())
    for this, following in pairwise(in_order):
        more = next(n for n in count(len(this.indices) + 1) if n == round_number(n))
        chosen = [*this.indices, *following.indices[: more - len(this.indices)]]
        width = max(len(sources[i]) for i in chosen) + max(len(targets[i]) for i in chosen)
        assert width * more > limit


def test_an_epoch_depends_on_seed_and_number_only() -> None:
    sources, targets = pairs_of(997)

    def order(seed: int, number: int) -> list[int]:
        settings = BatchSettings(tokens=503)
        return places(list(batches_of(sources, targets, settings, seed).epoch(number)))

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_epochs_batch_pairs_differently() -> None:
    sources, targets = pairs_of(997)
    batches = batches_of(sources, targets, BatchSettings(tokens=503), 1)
    first, second = ({frozenset(places([b])) for b in batches.epoch(n)} for n in (0, 1))
    assert len(first & second) < len(first) / 10


def test_batches_are_not_ordered_by_length() -> None:
    sources, targets = pairs_of(1999)
    batches = batches_of(sources, targets, BatchSettings(tokens=503), 1)
    widths = [batch.mask.size(1) for batch in batches.epoch(0)]
    neighbours = np.corrcoef(widths[:-1], widths[1:])[0, 1]
    assert abs(neighbours) < 0.3


def test_equal_length_batches_differ_between_epochs() -> None:
    sources, targets = pairs_of(1999)
    batches = batches_of(sources, targets, BatchSettings(503, equal_lengths=True))
    first, second = ({frozenset(places([b])) for b in batches.epoch(n)} for n in (0, 1))
    assert len(first & second) < len(first) / 3
    assert batches.num_batches(0) < 1.3 * batches_of(
        sources, targets, BatchSettings(503)
    ).num_batches(0)


@pytest.mark.parametrize("start", [0, 1, 11, 10_000])
def test_a_resumed_epoch_continues_at_its_batch(start: int) -> None:
    sources, targets = pairs_of(499)
    batches = batches_of(sources, targets, BatchSettings(tokens=503), 1)
    whole, resumed = list(batches.epoch(5)), list(batches.epoch(5, start))
    assert len(resumed) == max(0, len(whole) - start)
    assert all(same(one, other) for one, other in zip(whole[start:], resumed, strict=True))


@pytest.mark.parametrize("sizes", [BatchSettings(2048), BatchSettings(None, 64)])
def test_batches_have_little_padding(sizes: BatchSettings) -> None:
    sources, targets = pairs_of(4999)
    batches = batches_of(sources, targets, sizes, 1)
    real = padded = 0
    for batch in batches.epoch(0):
        for mask in (batch.source.mask, batch.mask):
            real, padded = real + int(mask.sum()), padded + mask.numel()
    assert 1 - real / padded < 0.1  # in the order that came it would be about 0.45


def test_evaluation_batches_cover_all_and_restore_the_order() -> None:
    sources, targets = pairs_of(251)
    batches = batches_of(sources, targets, BatchSettings(tokens=None, sentences=17), 1)
    back = {
        int(index): source[mask].tolist()
        for each in batches.in_order()
        for index, source, mask in zip(
            each.indices, each.batch.source.ids, each.batch.source.mask, strict=True
        )
    }
    assert [back[index] for index in range(251)] == sources
    longest = [each.batch.source.ids.size(1) for each in batches.in_order()]
    assert longest == sorted(longest, reverse=True)


def test_no_pairs_give_no_batches() -> None:
    batches = batches_of([], [], BatchSettings(), 1)
    assert len(batches) == batches.num_batches(0) == 0
    assert list(batches.epoch(0)) == list(batches.in_order()) == []


def test_impossible_batch_settings_are_rejected() -> None:
    with pytest.raises(UserError, match="give tokens, sentences or both"):
        BatchSettings(None, None)
    with pytest.raises(UserError, match="a batch has 0 sentences"):
        BatchSettings(7, 0)


def test_batches_of_real_text_have_little_padding(real_data: Path) -> None:
    pairs = read_pairs(real_data / "tatoeba" / "deu.txt", limit=10_000).pairs
    sources = [[4] * len(pair.source.split()) for pair in pairs]
    targets = [[4] * len(pair.target.split()) for pair in pairs]
    batches = batches_of(sources, targets, BatchSettings(None, 64), 1)
    positions = sum(b.mask.numel() + b.source.mask.numel() for b in batches.epoch(0))
    assert 1 - sum(map(len, sources + targets)) / positions < 0.1
