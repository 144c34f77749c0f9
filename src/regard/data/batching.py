"""Batches of encoded pairs with similar lengths, in an order that can be resumed.

Pairs with equal source length and equal target length are one length group. An epoch arranges all
pairs in a row, group after group, so that neighbours have similar lengths, and cuts the row into
batches. The cuts follow from the sizes of the groups alone, so the batches of millions of pairs are
counted quickly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.errors import UserError
from regard.linear import round_rows_down


@dataclass(frozen=True)
class BatchSettings:
    """Upper bounds of the size of a batch. A pair above the bounds is a batch of its own."""

    tokens: int | None = 2048
    """Largest number of positions with padding: sentences * (longest source + longest target)."""
    sentences: int | None = None
    """Largest number of pairs."""
    equal_lengths: bool = False
    """Whether all sources of a batch have equal lengths, so that an encoder computes no padding.
    Otherwise lengths may differ by one, which gives larger batches and mixes more pairs."""

    def __post_init__(self) -> None:
        if self.tokens is None and self.sentences is None:
            raise UserError("a batch has no size: give tokens, sentences or both")
        for name, size in (("tokens", self.tokens), ("sentences", self.sentences)):
            if size is not None and size < 1:
                raise UserError(f"a batch has {size} {name}: expected at least 1")


@runtime_checkable
class Countable(Protocol):
    """Encoded pairs with known lengths."""

    @property
    def source_lengths(self) -> np.ndarray: ...

    @property
    def target_lengths(self) -> np.ndarray: ...

    @property
    def digest(self) -> str:
        """Digest of the pairs."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> Any:
        """Return a padded batch of the pairs with these numbers."""


@dataclass(frozen=True)
class IndexedBatch:
    """Batch with the numbers of its pairs."""

    indices: np.ndarray
    batch: Any


class PairBatches:
    """Batches of encoded pairs for every epoch.

    The order of an epoch follows from the seed and the number of the epoch alone, so a resumed run
    continues with the next batch. Each epoch combines pairs of similar lengths at random and
    shuffles the batches.
    """

    def __init__(self, pairs: Countable, settings: BatchSettings, seed: int) -> None:
        self._pairs = pairs
        self._settings = settings
        self._seed = seed
        self._groups = _LengthGroups.of(pairs)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._pairs)

    def length_ratio(self, share: float) -> float:
        """Return the quantile at `share` of the ratios of target length to source length."""
        ratios = self._pairs.target_lengths / self._pairs.source_lengths
        return float(np.quantile(ratios, share))

    def num_batches(self, number: int) -> int:
        """Return the number of batches in this epoch."""
        return len(self._cut(self._row(self._random(number))))

    def fingerprint(self) -> str:
        """Return a digest of the pairs and of their arrangement in batches."""
        content = repr((self._settings, self._seed, self._pairs.digest))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch after the first `start`."""
        return map(self._pairs.batch, self.indices(number, start))

    def indices(self, number: int, start: int = 0) -> Iterator[np.ndarray]:
        """Yield the numbers of the pairs of each batch of an epoch, after the first `start`."""
        random = self._random(number)
        row = self._row(random)
        sizes = self._cut(row)
        order = self._groups.arrange(row, random.permutation(len(self)))
        ends = np.cumsum(sizes)
        for place in random.permutation(len(sizes))[start:]:
            yield order[ends[place] - sizes[place] : ends[place]]

    def in_order(self) -> Iterator[IndexedBatch]:
        """Yield every pair once, the longest first, in a fixed order: for evaluation."""
        row = self._groups.longest_first()
        sizes = self._cut(row)
        order = self._groups.arrange(row, np.arange(len(self)))
        for indices in np.split(order, np.cumsum(sizes)[:-1]) if sizes else ():
            yield IndexedBatch(indices, self._pairs.batch(indices))

    def longest(self) -> Any:
        """Return the batch of the longest sources."""
        return next(self.in_order()).batch

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, number))

    def _row(self, random: np.random.Generator) -> _Arrangement:
        if self._settings.equal_lengths:
            return self._groups.by_length()
        return self._groups.by_length_jittered(random)

    def _cut(self, row: _Arrangement) -> list[int]:
        """Return the sizes of the batches. Each takes as many neighbours as fit, rounded down to a
        size with fast kernels; the remainder begins the next batch."""
        sizes: list[int] = []
        size = widest_source = widest_target = 0  # of the batch that is being filled
        for source, target, count in row.runs(self._groups):
            if self._settings.equal_lengths and size and source != widest_source:
                sizes.append(size)
                size = 0
            maximum = self._max_pairs(max(source, widest_source), max(target, widest_target))
            while size > maximum:
                sizes.append(round_rows_down(size))
                size -= sizes[-1]
            if not size:
                widest_source = widest_target = 0
            widest_source, widest_target = max(source, widest_source), max(target, widest_target)
            size += count
            while size >= (maximum := self._max_pairs(widest_source, widest_target)):
                sizes.append(maximum)
                size -= maximum
                if size <= count:
                    widest_source, widest_target = source, target
        return [*sizes, size] if size else sizes

    def _max_pairs(self, source: int, target: int) -> int:
        """Return the number of pairs in a batch with these longest lengths."""
        sentences, tokens = self._settings.sentences or len(self), self._settings.tokens
        if tokens is None or tokens >= sentences * (source + target):
            return sentences
        return round_rows_down(max(1, tokens // (source + target)))


@dataclass(frozen=True)
class _Arrangement:
    """Arrangement of all pairs: runs of pairs of one length group, in order. A group may have two
    runs."""

    groups: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray
    """Number of pairs of the group that belong to its other run."""

    def runs(self, groups: _LengthGroups) -> Iterator[tuple[int, int, int]]:
        """Yield the source length, the target length and the number of pairs of each run."""
        columns = groups.sources[self.groups], groups.targets[self.groups], self.counts
        return zip(*(column.tolist() for column in columns), strict=True)


@dataclass(frozen=True)
class _LengthGroups:
    """Distinct pairs of source length and target length, and the group of every pair."""

    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    of_pair: np.ndarray

    @classmethod
    def of(cls, pairs: Countable) -> _LengthGroups:
        keys = pairs.source_lengths.astype(np.uint64) << 32 | pairs.target_lengths.astype(np.uint64)
        groups, of_pair, counts = np.unique(keys, return_inverse=True, return_counts=True)
        sources, targets = (groups >> 32).astype(np.int64), (groups & 0xFFFFFFFF).astype(np.int64)
        return cls(sources, targets, counts, of_pair.astype(np.uint32))

    def by_length(self) -> _Arrangement:
        groups = np.arange(len(self.counts))
        order = self._order(groups, self.sources)
        return _Arrangement(groups[order], self.counts[order], np.zeros_like(order))

    def by_length_jittered(self, random: np.random.Generator) -> _Arrangement:
        """Arrange groups by source length, but move about half of each group, drawn at random, to
        the sources that are longer by one. Small groups are thus mixed in each epoch."""
        longer = random.binomial(self.counts, 0.5)
        counts = np.concatenate([self.counts - longer, longer])
        firsts = np.concatenate([np.zeros_like(longer), self.counts - longer])
        groups = np.tile(np.arange(len(self.counts)), 2)
        order = self._order(groups, np.concatenate([self.sources, self.sources + 1]))
        order = order[counts[order] > 0]
        return _Arrangement(groups[order], counts[order], firsts[order])

    def longest_first(self) -> _Arrangement:
        groups = np.arange(len(self.counts))[::-1]
        return _Arrangement(groups, self.counts[groups], np.zeros_like(groups))

    def _order(self, groups: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the order by length, then by target length: descending for even lengths,
        ascending for odd lengths, so that neighbours stay similar across lengths."""
        targets = self.targets[groups]
        return np.lexsort((self.sources[groups], np.where(lengths % 2, targets, -targets), lengths))

    def arrange(self, row: _Arrangement, pairs: np.ndarray) -> np.ndarray:
        """Arrange all pairs in this row. The order of `pairs` is kept within a group."""
        # Sorting a number for each pair takes a fifth of the time of a stable argsort.
        places = self.of_pair[pairs].astype(np.uint64) << 32 | np.arange(
            len(pairs), dtype=np.uint64
        )
        places.sort()
        by_group = pairs[(places & 0xFFFFFFFF).astype(np.int64)]
        begins = (np.cumsum(self.counts) - self.counts)[row.groups] + row.firsts
        before = np.cumsum(row.counts) - row.counts
        return by_group[np.repeat(begins - before, row.counts) + np.arange(len(pairs))]
