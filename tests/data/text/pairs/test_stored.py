"""Stored pairs are the pairs that were encoded, every epoch has each pair as often as its weight
says, and a damaged file is noticed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from regard.data.batch import END, pair_batch
from regard.data.batching import BatchSettings, PairBatches
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.parts import DamagedError, Part, PartFacts
from regard.data.text.pairs.stored import StoredPairs
from tests.data.text.pairs.test_encoded import Pairs, encoded, pairs_of, same

SETTINGS = BatchSettings(tokens=60)


def facts_of(corpus: int = 0, *, has_copies: bool = False) -> PartFacts:
    return PartFacts(corpus, 0, 1, is_last=True, has_copies=has_copies, about="größer als")


def stored(
    folder: Path, parts: Sequence[Pairs], corpora: Sequence[int] = (), weights: Sequence[float] = ()
) -> StoredPairs:
    paths = [folder / f"part {number}" for number in range(len(parts))]
    for path, pairs, corpus in zip(paths, parts, corpora or [0] * len(parts), strict=True):
        Part.of(encoded(pairs), facts_of(corpus), 101).write(path)
    return StoredPairs([Part.read(path) for path in paths], weights)


def generated(number: int, first: int = 0) -> Pairs:
    """Pairs whose sources begin with a number of their own."""
    random = np.random.default_rng(number)
    pairs = []
    for place, length in enumerate(random.integers(0, 6, number).tolist()):
        source, target = (random.integers(4, 90, length + extra).tolist() for extra in (0, 1))
        pairs.append(([4 + first + place, *source, END], target))
    return pairs


def divided(pairs: Pairs, size: int) -> list[Pairs]:
    return [pairs[first : first + size] for first in range(0, len(pairs), size)]


def drawn(batches: PairBatches, pairs: StoredPairs, epoch: int) -> list[int]:
    """Return the own numbers of the pairs of an epoch."""
    return [
        pairs.pair(index)[0][0] - 4
        for indices in batches.indices(epoch)
        for index in indices.tolist()
    ]


@given(st.data(), st.sampled_from([101, 1 << 16, (1 << 16) + 1, 1 << 24]), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_files_have_the_pairs_that_were_encoded(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, vocabulary: int, size: int
) -> None:
    pairs = data.draw(pairs_of(vocabulary - 1))
    folder, parts = tmp_path_factory.mktemp("stored"), []
    for number, some in enumerate(divided(pairs, size)):
        held = Part.of(encoded(some), facts_of(), vocabulary)
        held.write(folder / str(number))
        parts.append(Part.read(folder / str(number)))
        assert (parts[-1].facts, parts[-1].digest) == (held.facts, held.digest)
        assert parts[-1].numbers.itemsize == (2 if vocabulary <= 1 << 16 else 4)
    result = StoredPairs(parts)
    assert len(result) == len(pairs)
    assert Counter(str(result.pair(index)) for index in range(len(pairs))) == Counter(
        map(str, pairs)
    )
    indices = np.array(data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1)))
    sources, targets = zip(*(result.pair(index) for index in indices.tolist()), strict=True)
    assert same(result.batch(indices), pair_batch(sources, targets))


def test_the_file_is_one_that_safetensors_reads(tmp_path: Path) -> None:
    pairs = encoded([([5, 6, 7], [8]), ([9], [10, 11]), ([4, 4, 4], [3])])
    Part.of(pairs, facts_of(), 101).write(tmp_path / "part")
    arrays = {name: each.tolist() for name, each in load_file(tmp_path / "part").items()}
    assert arrays == {
        "groups": [[1, 2, 1], [3, 1, 2]],
        "numbers": [9, 10, 11, 5, 6, 7, 8, 4, 4, 4, 3],
    }


def test_pairs_with_numbers_to_copy_keep_them(tmp_path: Path) -> None:
    pairs = EncodedPairs.of([[5, 6, 7], [9]], [[8], [10, 31]], [[30, 31, 30], [2]])
    Part.of(pairs, facts_of(has_copies=True), 101).write(tmp_path / "part")
    result = StoredPairs([Part.read(tmp_path / "part")])
    batch = result.batch(np.array([1, 0]))
    assert same(batch, pairs.batch(np.array([0, 1])))
    assert batch.source.copies is not None
    assert batch.source.copies[0].tolist() == [30, 31, 30]
    with pytest.raises(ValueError, match="numbers to copy"):
        result.pair(0)


def test_parts_may_have_no_pairs(tmp_path: Path) -> None:
    assert len(stored(tmp_path, [[], []])) == 0
    pairs = stored(tmp_path, [[], generated(3), []])
    assert sorted(drawn(PairBatches(pairs, SETTINGS, 1), pairs, 1)) == [0, 1, 2]


@given(st.integers(1, 90), st.integers(1, 40), st.booleans(), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_every_pair_occurs_once_an_epoch_within_the_limits(
    tmp_path_factory: pytest.TempPathFactory, number: int, size: int, equal: bool, epoch: int
) -> None:
    folder = tmp_path_factory.mktemp("stored")
    pairs = stored(folder, divided(generated(number), size))
    batches = PairBatches(pairs, BatchSettings(60, 7, equal), seed=3)
    assert sorted(drawn(batches, pairs, epoch)) == list(range(number))
    all_batches = list(batches.epoch(epoch))
    assert len(all_batches) == batches.num_batches(epoch)
    for batch in all_batches:
        positions = batch.source.mask.numel() + batch.mask.numel()
        assert len(batch.mask) == 1 or (len(batch.mask) <= 7 and positions <= 60)
        assert not equal or batch.source.mask.all()
    in_order = np.concatenate([batch.indices for batch in batches.in_order()])
    assert sorted(in_order.tolist()) == list(range(number))
    lengths = [len(pairs.pair(index)[0]) for index in range(number)]
    assert batches.longest().source.ids.shape[1] == max(lengths)


def test_an_epoch_is_that_of_groups_in_memory_apart_from_the_order_within_groups(
    tmp_path: Path,
) -> None:
    """The cuts follow from lengths alone, so batches have the same shapes."""
    everything = generated(300)
    pairs = stored(tmp_path, divided(everything, 41))
    here, there = (PairBatches(part, SETTINGS, seed=5) for part in (pairs, encoded(everything)))
    assert here.num_batches(2) == there.num_batches(2)
    assert here.length_ratio(0.99) == pytest.approx(there.length_ratio(0.99))
    shapes = [
        Counter((*batch.source.ids.shape, batch.outputs.shape[1]) for batch in each.epoch(2))
        for each in (here, there)
    ]
    assert shapes[0] == shapes[1]


def test_an_epoch_continues_at_any_batch_and_differs_from_the_next(tmp_path: Path) -> None:
    pairs = stored(tmp_path, divided(generated(200), 30))
    batches = PairBatches(pairs, SETTINGS, seed=1)
    epoch = [indices.tolist() for indices in batches.indices(3)]
    assert [indices.tolist() for indices in batches.indices(3, 5)] == epoch[5:]
    assert [indices.tolist() for indices in batches.indices(4)] != epoch
    reseeded = PairBatches(pairs, SETTINGS, seed=2)
    assert [indices.tolist() for indices in reseeded.indices(3)] != epoch
    assert reseeded.fingerprint() != batches.fingerprint()


def test_pairs_are_combined_anew_in_every_epoch(tmp_path: Path) -> None:
    """Two pairs of one length share a batch as often as in a random order."""
    same_length: Pairs = [([4 + place, 5, END], [6, END]) for place in range(40)]
    pairs = stored(tmp_path, divided(same_length, 13))
    batches = PairBatches(pairs, BatchSettings(None, 8, equal_lengths=True), seed=1)
    together = 0
    for epoch in range(1, 301):
        for indices in batches.indices(epoch):
            numbers = {pairs.pair(index)[0][0] for index in indices.tolist()}
            together += {4, 5} <= numbers
    expected = 300 * 7 / 39
    assert abs(together - expected) < 5 * np.sqrt(expected)


@pytest.mark.parametrize("weight", [0.25, 0.3, 1.0, 2.0, 2.5])
def test_each_pair_occurs_as_often_as_its_weight_says(tmp_path: Path, weight: float) -> None:
    large, small = generated(120), generated(30, 120)
    pairs = stored(
        tmp_path, [*divided(large, 50), *divided(small, 20)], [0, 0, 0, 1, 1], [weight, 1.0]
    )
    batches = PairBatches(pairs, SETTINGS, seed=1)
    total: Counter[int] = Counter()
    for epoch in range(1, 21):
        numbers = Counter(drawn(batches, pairs, epoch))
        of_large = sum(count for number, count in numbers.items() if number < 120)
        assert abs(of_large - weight * 120) < 25  # groups are rounded at random
        assert all(numbers[number] == 1 for number in range(120, 150))
        total += numbers
        for number in range(120):
            assert abs(total[number] - epoch * weight) < 2
    assert len(pairs) == 150


def test_weights_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    prints = {
        PairBatches(stored(tmp_path, [generated(9)], [0], weights), SETTINGS, 1).fingerprint()
        for weights in ([], [1.0], [2.0], [0.5])
    }
    assert len(prints) == 3


SMALL: Pairs = [([5, 6, 7], [8]), ([9], [10, 11])]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_file_is_rejected_unless_nothing_in_it_changed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "part"
    part = Part.of(encoded(SMALL), facts_of(), 101)
    part.write(path)
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.integers(1, 255))
    flipped = content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
    for damaged in (flipped, content[:place]):
        path.write_bytes(damaged)
        try:
            result = Part.read(path)
        except DamagedError:
            continue
        assert json.loads(result.facts.to_json()) == json.loads(part.facts.to_json())
        assert (result.groups.tolist(), result.numbers.tolist()) == (
            part.groups.tolist(), part.numbers.tolist(),
        )  # fmt: skip


def test_other_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    header = b'{"__metadata__": {"facts": "{}", "sha256": "x"}}'
    for content in (b"", b"{}", b"\0" * 8 + b"[1]", len(header).to_bytes(8, "little") + header):
        path.write_bytes(content)
        with pytest.raises(DamagedError):
            Part.read(path)
    with pytest.raises(OSError, match="nothing"):
        Part.read(tmp_path / "nothing")
