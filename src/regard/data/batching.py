"""Batches of encoded pairs with similar lengths, in an order that can be resumed.

Pairs with equal source length and equal target length are one length group. An epoch arranges its
pairs in a row, group after group, so that neighbours have similar lengths, and cuts the row into
batches. The cuts follow from the sizes of the groups alone, so the batches of millions of pairs are
counted quickly, without a number for each pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.data.length_groups import Arrangement, HeldGroups, LengthGroups
from regard.errors import UserError
from regard.numerics.linear import round_rows_down


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
class Batchable(Protocol):
    """Encoded pairs, which batches are made of."""

    @property
    def digest(self) -> str:
        """Digest of the pairs."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> Any:
        """Return a padded batch of the pairs with these numbers."""


@runtime_checkable
class Countable(Batchable, Protocol):
    """Encoded pairs whose lengths are in memory."""

    @property
    def source_lengths(self) -> np.ndarray: ...

    @property
    def target_lengths(self) -> np.ndarray: ...


@runtime_checkable
class Grouped(Batchable, Protocol):
    """Encoded pairs that are stored in length groups."""

    def groups(self, seed: int) -> LengthGroups:
        """Return the groups, which shuffle their pairs by this seed."""


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

    def __init__(self, pairs: Countable | Grouped, settings: BatchSettings, seed: int) -> None:
        self._pairs = pairs
        self._settings = settings
        self._seed = seed
        self._groups: LengthGroups = (
            pairs.groups(seed)
            if isinstance(pairs, Grouped)
            else HeldGroups.of(pairs.source_lengths, pairs.target_lengths)
        )

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._pairs)

    def length_ratio(self, share: float) -> float:
        """Return the quantile at `share` of the ratios of target length to source length."""
        return self._groups.length_ratio(share)

    def num_batches(self, number: int) -> int:
        """Return the number of batches in this epoch."""
        return len(self._cut(self._row(number, self._random(number))))

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
        row = self._row(number, random)
        sizes = self._cut(row)
        order = self._groups.shuffled(row, number, random)
        ends = np.cumsum(sizes)
        for place in random.permutation(len(sizes))[start:]:
            yield order[ends[place] - sizes[place] : ends[place]]

    def in_order(self) -> Iterator[IndexedBatch]:
        """Yield every pair once, the longest first, in a fixed order: for evaluation."""
        row = self._groups.longest_first()
        sizes = self._cut(row)
        order = self._groups.in_order(row)
        end = 0
        for size in sizes:
            end += size
            indices = order[end - size : end]
            yield IndexedBatch(indices, self._pairs.batch(indices))

    def longest(self) -> Any:
        """Return the batch of the longest sources."""
        return next(self.in_order()).batch

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, number))

    def _row(self, number: int, random: np.random.Generator) -> Arrangement:
        if self._settings.equal_lengths:
            return self._groups.by_length(number)
        return self._groups.by_length_jittered(number, random)

    def _cut(self, row: Arrangement) -> list[int]:
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
