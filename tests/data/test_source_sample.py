"""Samples of sources equal the smallest random numbers of all sources, however they come."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.examples import Pair
from regard.data.source_sample import SourceSample
from regard.data.splits import DEV, TEST, source_hashes


def sampled(sources, at_a_time, size=5, max_pairs=4, seed=1):
    sample = SourceSample(size, max_pairs, seed)
    pairs = [Pair(source, str(place), place + 1) for place, source in enumerate(sources)]
    for first in range(0, len(pairs), at_a_time):
        part = pairs[first : first + at_a_time]
        sample.add(first, part, source_hashes(part))
    return sample


@given(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), max_size=90), st.integers(1, 20))
def test_pairs_of_one_source_stay_together_within_the_sizes(sources, at_a_time):
    sizes = (3, 4)
    held_out = sampled(sources, at_a_time).hold_out(sizes)
    counts = Counter(split for split, _ in held_out.values())
    assert counts[DEV] <= 3
    assert counts[TEST] <= 4
    chosen = {pair.source for _, pair in held_out.values()}
    assert len({(pair.source, split) for split, pair in held_out.values()}) == len(chosen)
    assert [place for place, source in enumerate(sources) if source in chosen] == sorted(held_out)
    for place, (_, pair) in held_out.items():
        assert (pair.source, pair.target) == (sources[place], str(place))


@given(st.integers(1, 300), st.integers(0, 5))
def test_the_parts_in_which_pairs_come_change_nothing(at_a_time, seed):
    sources = [f"source {place % 170}" for place in range(300)]
    whole = sampled(sources, 300, seed=seed).hold_out((3, 3))
    assert sampled(sources, at_a_time, seed=seed).hold_out((3, 3)) == whole


def test_every_source_is_held_out_with_equal_frequency():
    sources = [str(number) for number in range(40)]
    counts = Counter(
        pair.source
        for seed in range(400)
        for _, pair in sampled(sources, 7, seed=seed).hold_out((4, 0)).values()
    )
    expected = 400 * 4 / 40
    chi_squared = sum((counts[source] - expected) ** 2 / expected for source in sources)
    assert chi_squared < 80  # exceeded by chance in one of 10,000 choices


def test_a_sample_says_whether_it_has_all_sources_and_forgets_removed_ones():
    assert sampled("abc", 1).is_complete
    assert not sampled("abcdefghijklmno", 1).is_complete
    sample = sampled("abc", 1)
    sample.remove(source_hashes([Pair("b", "", 1)]))
    assert {pair.source for _, pair in sample.hold_out((9, 9)).values()} == {"a", "c"}


def test_memory_does_not_grow_with_the_number_of_sources():
    sample = sampled([str(number) for number in range(20_000)], 100)
    assert len(sample._pairs) <= 10
    assert np.all([len(pairs) == 1 for pairs in sample._pairs.values()])
