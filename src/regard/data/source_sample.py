"""Random sources of any number of pairs, with memory for the chosen ones alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.examples import Pair
from regard.data.permutation import mixed
from regard.data.splits import DEV, TEST

HIGHEST = (1 << 64) - 1


class SourceSample:
    """The sources with the smallest random numbers, with all their pairs.

    The random number of a source follows from the hash of its text and from a seed, so it is that
    of all pairs with this source. The pairs with the smallest numbers are a random sample of the
    sources (bottom-k sampling, Cohen and Kaplan 2007).
    """

    def __init__(self, size: int, max_pairs: int, seed: int) -> None:
        """Sample `size` sources. Of a source with more than `max_pairs` pairs, only some
        pairs are kept."""
        self._size = size
        self._max_pairs = max_pairs
        self._key = mixed(np.array([seed], np.uint64))
        self._largest = HIGHEST
        self._pairs: dict[int, list[tuple[int, Pair]]] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all sources are in the sample."""
        return self._largest == HIGHEST and len(self._pairs) <= self._size

    def add(self, place: int, pairs: Sequence[Pair], hashes: np.ndarray) -> None:
        """Add pairs, the first of which is at this place, with the hashes of their sources."""
        numbers = mixed(hashes ^ self._key)
        for index in np.flatnonzero(numbers <= self._largest).tolist():
            of_source = self._pairs.setdefault(int(numbers[index]), [])
            if len(of_source) <= self._max_pairs:
                of_source.append((place + index, pairs[index]))
        if len(self._pairs) > 2 * self._size:
            smallest = sorted(self._pairs)[: self._size]
            self._pairs = {number: self._pairs[number] for number in smallest}
            self._largest = smallest[-1]

    def remove(self, hashes: np.ndarray) -> None:
        """Remove the sources with these hashes."""
        numbers = mixed(hashes ^ self._key)
        for number in numbers[np.isin(numbers, np.array([*self._pairs], np.uint64))].tolist():
            self._pairs.pop(number, None)

    def hold_out(self, max_sizes: tuple[int, int]) -> dict[int, tuple[int, Pair]]:
        """Return the split, DEV or TEST, and the pair of each place that is held out. Dev and test
        get at most these numbers of pairs; pairs with one source stay together."""
        held_out: dict[int, tuple[int, Pair]] = {}
        room = {DEV: max_sizes[0], TEST: max_sizes[1]}
        for _, pairs in sorted(self._pairs.items())[: self._size]:
            split = next((split for split in room if room[split] >= len(pairs)), None)
            if split is not None and len(pairs) <= self._max_pairs:
                room[split] -= len(pairs)
                held_out |= {place: (split, pair) for place, pair in pairs}
        return held_out
