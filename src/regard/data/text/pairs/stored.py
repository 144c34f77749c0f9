"""Encoded pairs in parts, of which only the pairs of the current batch are read.

Memory holds a few numbers for each group of each part, and none for each pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.batch import PairBatch
from regard.data.length_groups import Arrangement, LengthGroups, Row
from regard.data.permutation import mixed, permuted
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.parts import GROUPS, Part


class StoredPairs:
    """Encoded pairs in parts. Pairs are numbered in the order of the parts and of their groups."""

    def __init__(self, parts: Sequence[Part], weights: Sequence[float] = ()) -> None:
        """`weights` is the number of times that a pair of each corpus occurs in an epoch, by
        default 1."""
        self._parts = parts
        self._weights = np.array(weights, np.float64)
        self.has_copies = any(part.facts.has_copies for part in parts)
        self._cells = _Cells.of(parts)
        self._num_pairs = int(self._cells.counts.sum())

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self._num_pairs

    @cached_property
    def digest(self) -> str:
        """Digest of the pairs and of their weights."""
        digests = [part.digest for part in self._parts]
        if (self._weights != 1).any():
            digests.append(repr(self._weights.tolist()))
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def corpus_sizes(self) -> list[int]:
        """Return the number of pairs of each corpus that has a weight."""
        cells = self._cells
        return np.bincount(cells.corpora, cells.counts, len(self._weights)).astype(int).tolist()

    @property
    def num_drawn(self) -> int:
        """Number of pairs of an epoch, on average."""
        return round(float(self._weights @ self.corpus_sizes()))

    def groups(self, seed: int) -> LengthGroups:
        """Return the length groups, which shuffle their pairs by this seed."""
        return StoredGroups.of(self._cells, self._weights, seed)

    def batch(self, indices: np.ndarray) -> PairBatch:
        """Return a padded batch of the pairs with these numbers."""
        return self.read(indices).batch(np.arange(len(indices)))

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        """Return the token numbers of one source and its target. ValueError with copies."""
        return self.read(np.array([index])).pair(0)

    def read(self, indices: np.ndarray) -> EncodedPairs:
        """Return the pairs with these numbers, in memory."""
        cells = self._cells
        places = np.searchsorted(cells.firsts, indices, "right") - 1
        sources, targets = cells.sources[places], cells.targets[places]
        widths = sources * (1 + self.has_copies) + targets
        begins = cells.begins[places] + (indices - cells.firsts[places]) * widths
        parts = cells.parts[places]
        spans = zip(parts.tolist(), begins.tolist(), (begins + widths).tolist(), strict=True)
        numbers = np.concatenate(
            [self._parts[part].numbers[begin:end] for part, begin, end in spans]
        )
        for part in np.unique(parts).tolist():
            self._parts[part].release()
        return EncodedPairs(numbers, sources, targets, has_copies=self.has_copies)


@dataclass(frozen=True)
class _Cells:
    """Groups of all parts, in the order of the parts. Each array is [cells] int64."""

    parts: np.ndarray
    corpora: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray
    """Number of the first pair."""
    begins: np.ndarray
    """Place of its first token number in the part."""

    @classmethod
    def of(cls, parts: Sequence[Part]) -> _Cells:
        sizes = [len(part.groups) for part in parts]
        table = np.concatenate([np.empty((0, 3), GROUPS), *(part.groups for part in parts)])
        sources, targets, counts = table.T
        begins = [np.empty(0, np.int64)]
        for part in parts:
            widths = part.groups[:, 0] * (1 + part.facts.has_copies) + part.groups[:, 1]
            tokens = widths * part.groups[:, 2]
            begins.append(np.cumsum(tokens) - tokens)
        return cls(
            np.repeat(np.arange(len(parts)), sizes),
            np.repeat(np.array([part.facts.corpus for part in parts], np.int64), sizes),
            sources,
            targets,
            counts,
            np.cumsum(counts) - counts,
            np.concatenate(begins),
        )


@dataclass(frozen=True)
class StoredGroups(LengthGroups):
    """Length groups of each corpus. The pairs of a group are in several parts.

    A group has an endless row of random permutations of its pairs, of which every epoch takes the
    next pairs: all pairs of one permutation with weight 1, and the first half of the next one with
    weight 0.5. Nothing is stored: the pair at a place of the row is computed."""

    weights: np.ndarray
    """[groups] number of times that each pair occurs in an epoch."""
    phases: np.ndarray
    """[groups] random numbers from 0 to 1, added to the number of pairs before an epoch is rounded
    down, so that not all small groups are drawn in the same epoch."""
    keys: np.ndarray
    """[groups] uint64 for the permutations."""
    cells: np.ndarray
    """[cells] number of the first pair of each cell, by group."""
    ends: np.ndarray
    """[cells] number of pairs up to the end of each cell, by group."""

    @classmethod
    def of(cls, cells: _Cells, weights: np.ndarray, seed: int) -> StoredGroups:
        """Return the groups of these cells, with the weight of each corpus."""
        columns = cells.corpora, cells.sources, cells.targets
        order = np.lexsort(columns[::-1])
        table = np.stack([column[order] for column in columns], axis=1)
        is_first = np.ones(len(table), bool)
        is_first[1:] = (table[1:] != table[:-1]).any(axis=1)
        corpora, sources, targets = table[is_first].T
        counts = np.add.reduceat(cells.counts[order], np.flatnonzero(is_first))
        random = np.random.default_rng((seed, len(counts)))
        return cls(
            sources,
            targets,
            counts,
            weights[corpora] if len(weights) else np.ones(len(counts)),
            random.random(len(counts)),
            random.integers(0, 1 << 64, len(counts), np.uint64),
            cells.firsts[order],
            np.cumsum(cells.counts[order]),
        )

    def draws(self, epoch: int) -> np.ndarray:
        return self._drawn_before(epoch + 1) - self._drawn_before(epoch)

    def shuffled(self, row: Arrangement, epoch: int, random: np.random.Generator) -> Row:
        del random
        return _ShuffledRow(self, row, self._drawn_before(epoch))

    def in_order(self, row: Arrangement) -> Row:
        return _StoredRow(self, row)

    def pairs(self, groups: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the numbers of the pairs at these places of their groups."""
        totals = self._begins[groups] + places
        cells = np.searchsorted(self.ends, totals, "right")
        before = np.where(cells > 0, self.ends[cells - 1], 0)
        return self.cells[cells] + totals - before

    @cached_property
    def _begins(self) -> np.ndarray:
        return np.cumsum(self.counts) - self.counts

    def _drawn_before(self, epoch: int) -> np.ndarray:
        """Return the number of pairs of each group that the epochs before this one have drawn."""
        return np.floor((epoch - 1) * self.weights * self.counts + self.phases).astype(np.int64)


@dataclass(frozen=True)
class _StoredRow:
    """Pairs in an arrangement, in the order of their numbers within each group."""

    groups: StoredGroups
    row: Arrangement

    def __getitem__(self, places: slice) -> np.ndarray:
        groups, ranks = self._ranks(places)
        return self.groups.pairs(groups, ranks)

    def _ranks(self, places: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the group at each place, and the number of its pairs that come before."""
        taken = np.arange(places.start, places.stop)
        runs = np.searchsorted(self._ends, taken, "right")
        ranks = taken - self._ends[runs] + self.row.counts[runs] + self.row.firsts[runs]
        return self.row.groups[runs], ranks

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum(self.row.counts)


@dataclass(frozen=True)
class _ShuffledRow(_StoredRow):
    """Pairs in an arrangement, in a random order within each group."""

    drawn: np.ndarray
    """[groups] number of pairs that earlier epochs have drawn."""

    def __getitem__(self, places: slice) -> np.ndarray:
        groups, ranks = self._ranks(places)
        sizes = self.groups.counts[groups]
        passes, ranks = np.divmod(ranks + self.drawn[groups], sizes)
        keys = mixed(self.groups.keys[groups] ^ mixed(passes.astype(np.uint64)))
        return self.groups.pairs(groups, permuted(ranks, sizes, keys))
