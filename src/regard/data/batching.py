"""Batches of encoded pairs: of one size, of like lengths, in an order that can be resumed.

Pairs with the same two lengths are one kind. An epoch lays all pairs in a row, kind after kind, so
that neighbours have like lengths, and cuts it into batches. Where it is cut follows from how many
pairs there are of each kind, so that the batches of millions of pairs are counted in a moment.
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
    """How large a batch may be. A pair that is larger by itself gets a batch of its own."""

    tokens: int | None = 2048
    """The most positions, padding included: sentences times (longest source + longest target)."""
    sentences: int | None = None
    """The most pairs."""
    one_source_length: bool = False
    """Sources of a batch have the very same length, instead of one that differs by one at times:
    no padding in an encoder, but smaller batches and fewer pairs that ever meet."""

    def __post_init__(self) -> None:
        if self.tokens is None and self.sentences is None:
            raise UserError("a batch needs a size: give tokens, sentences or both")
        for name, size in (("tokens", self.tokens), ("sentences", self.sentences)):
            if size is not None and size < 1:
                raise UserError(f"a batch of {size} {name}: expected at least 1")


@runtime_checkable
class Countable(Protocol):
    """What batches are dealt out of: pairs of which the lengths are known."""

    @property
    def source_lengths(self) -> np.ndarray: ...

    @property
    def target_lengths(self) -> np.ndarray: ...

    @property
    def digest(self) -> str:
        """The same for the same pairs, and for no others."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> Any:
        """These pairs, padded."""


@dataclass(frozen=True)
class IndexedBatch:
    """A batch with the places that its pairs had in what was given."""

    indices: np.ndarray
    batch: Any


class PairBatches:
    """Encoded pairs, and their batches epoch after epoch.

    The order of an epoch follows from the seed and its number alone, so a run that was broken off
    goes on with the very batch that was next. Pairs of like lengths go together and who is with
    whom is drawn anew in each epoch, as is the order of the batches.
    """

    def __init__(self, pairs: Countable, settings: BatchSettings, seed: int) -> None:
        self._pairs = pairs
        self._settings = settings
        self._seed = seed
        self._kinds = _Kinds.of(pairs)

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self._pairs)

    def length_ratio(self, share: float) -> float:
        """The ratio of target to source length that this share of the pairs does not exceed."""
        ratios = self._pairs.target_lengths / self._pairs.source_lengths
        return float(np.quantile(ratios, share))

    def num_batches(self, number: int) -> int:
        """How many batches this epoch has."""
        return len(self._cut(self._row(self._random(number))))

    def fingerprint(self) -> str:
        """The same for the same pairs in the same batches, and for no others."""
        told = repr((self._settings, self._seed, self._pairs.digest))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Every pair once, leaving out the first `start` batches."""
        random = self._random(number)
        row = self._row(random)
        sizes = self._cut(row)
        order = self._kinds.lay(row, random.permutation(len(self)))
        ends = np.cumsum(sizes)
        for place in random.permutation(len(sizes))[start:]:
            yield self._pairs.batch(order[ends[place] - sizes[place] : ends[place]])

    def in_order(self) -> Iterator[IndexedBatch]:
        """Every pair once, the longest first, always the same: for evaluation."""
        row = self._kinds.longest_first()
        sizes = self._cut(row)
        order = self._kinds.lay(row, np.arange(len(self)))
        for indices in np.split(order, np.cumsum(sizes)[:-1]) if sizes else ():
            yield IndexedBatch(indices, self._pairs.batch(indices))

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, number))

    def _row(self, random: np.random.Generator) -> _Row:
        if self._settings.one_source_length:
            return self._kinds.by_length()
        return self._kinds.by_length_give_or_take_one(random)

    def _cut(self, row: _Row) -> list[int]:
        """The sizes of the batches: as many neighbours to each as fit, in round numbers. What a
        round number leaves over begins the next batch."""
        sizes: list[int] = []
        size = widest_source = widest_target = 0  # of the batch that is not full yet
        for source, target, count in row.stretches(self._kinds):
            if self._settings.one_source_length and size and source != widest_source:
                sizes.append(size)
                size = 0
            most = self._most(max(source, widest_source), max(target, widest_target))
            while size > most:
                sizes.append(round_rows_down(size))
                size -= sizes[-1]
            if not size:
                widest_source = widest_target = 0
            widest_source, widest_target = max(source, widest_source), max(target, widest_target)
            size += count
            while size >= (most := self._most(widest_source, widest_target)):
                sizes.append(most)
                size -= most
                if size <= count:
                    widest_source, widest_target = source, target
        return [*sizes, size] if size else sizes

    def _most(self, source: int, target: int) -> int:
        """How many pairs with such longest sides make a batch."""
        sentences, tokens = self._settings.sentences or len(self), self._settings.tokens
        if tokens is None or tokens >= sentences * (source + target):
            return sentences
        return round_rows_down(max(1, tokens // (source + target)))


@dataclass(frozen=True)
class _Row:
    """Stretches of pairs of one kind, in the order in which all pairs are laid out. A kind may
    have two of them."""

    kinds: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray
    """How many pairs of the kind are in another stretch of it that takes its pairs before."""

    def stretches(self, kinds: _Kinds) -> Iterator[tuple[int, int, int]]:
        """The source length, the target length and the number of pairs of each."""
        columns = kinds.sources[self.kinds], kinds.targets[self.kinds], self.counts
        return zip(*(column.tolist() for column in columns), strict=True)


@dataclass(frozen=True)
class _Kinds:
    """The different (source length, target length) that there are, and the kind of every pair."""

    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    of_pair: np.ndarray

    @classmethod
    def of(cls, pairs: Countable) -> _Kinds:
        both = pairs.source_lengths.astype(np.uint64) << 32 | pairs.target_lengths.astype(np.uint64)
        kinds, of_pair, counts = np.unique(both, return_inverse=True, return_counts=True)
        sources, targets = (kinds >> 32).astype(np.int64), (kinds & 0xFFFFFFFF).astype(np.int64)
        return cls(sources, targets, counts, of_pair.astype(np.uint32))

    def by_length(self) -> _Row:
        kinds = np.arange(len(self.counts))
        order = self._order(kinds, self.sources)
        return _Row(kinds[order], self.counts[order], np.zeros_like(order))

    def by_length_give_or_take_one(self, random: np.random.Generator) -> _Row:
        """About half of each kind, drawn pair by pair, go with the sources that are longer by
        one, so that where there are few of a kind others meet in each epoch."""
        longer = random.binomial(self.counts, 0.5)
        counts = np.concatenate([self.counts - longer, longer])
        firsts = np.concatenate([np.zeros_like(longer), self.counts - longer])
        kinds = np.tile(np.arange(len(self.counts)), 2)
        order = self._order(kinds, np.concatenate([self.sources, self.sources + 1]))
        order = order[counts[order] > 0]
        return _Row(kinds[order], counts[order], firsts[order])

    def longest_first(self) -> _Row:
        kinds = np.arange(len(self.counts))[::-1]
        return _Row(kinds, self.counts[kinds], np.zeros_like(kinds))

    def _order(self, kinds: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """By length, then by target length: up within one length and down within the next, so
        that neighbours stay alike where it changes."""
        targets = self.targets[kinds]
        return np.lexsort((self.sources[kinds], np.where(lengths % 2, targets, -targets), lengths))

    def lay(self, row: _Row, pairs: np.ndarray) -> np.ndarray:
        """These pairs (all of them, in any order) in a row: those of a kind in the order given."""
        # Sorting a number for each pair takes a fifth of the time of a stable argsort.
        places = self.of_pair[pairs].astype(np.uint64) << 32 | np.arange(
            len(pairs), dtype=np.uint64
        )
        places.sort()
        by_kind = pairs[(places & 0xFFFFFFFF).astype(np.int64)]
        begins = (np.cumsum(self.counts) - self.counts)[row.kinds] + row.firsts
        before = np.cumsum(row.counts) - row.counts
        return by_kind[np.repeat(begins - before, row.counts) + np.arange(len(pairs))]
