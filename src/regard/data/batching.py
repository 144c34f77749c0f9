"""Batches of encoded pairs: of one size, of like lengths, in an order that can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from regard.data.batch import PAD, START, PairBatch, Tokens
from regard.errors import UserError

POOL = 1 << 17
"""Pairs that are sorted together: many batches, so that little is padding."""


@dataclass(frozen=True)
class BatchSettings:
    """How large a batch may be. A pair that is larger by itself gets a batch of its own."""

    tokens: int | None = 2048
    """The most positions, padding included: sentences times (longest source + longest target)."""
    sentences: int | None = None
    """The most pairs."""

    def __post_init__(self) -> None:
        if self.tokens is None and self.sentences is None:
            raise UserError("a batch needs a size: give tokens, sentences or both")
        for name, size in (("tokens", self.tokens), ("sentences", self.sentences)):
            if size is not None and size < 1:
                raise UserError(f"a batch of {size} {name}: expected at least 1")


@dataclass(frozen=True)
class IndexedBatch:
    """A batch with the places that its pairs had in what was given."""

    indices: np.ndarray
    batch: PairBatch


class PairBatches:
    """Encoded pairs, and their batches epoch after epoch.

    The order of an epoch follows from the seed and its number alone, so a run that was broken off
    goes on with the very batch that was next. Pairs of like lengths go together and who is with
    whom is drawn anew in each epoch, as is the order of the batches.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        settings: BatchSettings,
        seed: int,
    ) -> None:
        """`targets` hold what is to be written, END included. ValueError where the sides differ
        in number or a sequence is empty."""
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets: expected pairs")
        self._sources = _Side("source", sources)
        self._targets = _Side("target", targets)
        self._settings = settings
        self._seed = seed

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self._sources.lengths)

    def length_ratio(self, share: float) -> float:
        """The ratio of target to source length that this share of the pairs does not exceed."""
        return float(np.quantile(self._targets.lengths / self._sources.lengths, share))

    def num_batches(self, number: int) -> int:
        """How many batches this epoch has."""
        return len(self._plan(number))

    def fingerprint(self) -> str:
        """The same for the same pairs in the same batches, and for no others."""
        told = hashlib.sha256(repr((self._settings, self._seed)).encode())
        for side in (self._sources, self._targets):
            told.update(side.lengths.tobytes())
            told.update(side.numbers.tobytes())
        return told.hexdigest()[:16]

    def epoch(self, number: int, start: int = 0) -> Iterator[PairBatch]:
        """Every pair once, leaving out the first `start` batches."""
        for indices in self._plan(number)[start:]:
            yield self._batch(indices)

    def in_order(self) -> Iterator[IndexedBatch]:
        """Every pair once, the longest first, always the same: for evaluation."""
        order = np.lexsort((self._targets.lengths, self._sources.lengths))[::-1]
        for indices in self._cut(order):
            yield IndexedBatch(indices, self._batch(indices))

    def _plan(self, number: int) -> list[np.ndarray]:
        """The indices of every batch of an epoch."""
        random = np.random.default_rng((self._seed, number))
        shuffled = random.permutation(len(self))
        batches: list[np.ndarray] = []
        for first in range(0, len(shuffled), POOL):
            batches += self._cut(self._sorted(shuffled[first : first + POOL], random))
        return [batches[place] for place in random.permutation(len(batches))]

    def _sorted(self, pool: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """By source length give or take one, then by target length: up within one source length
        and down within the next, so that neighbours stay alike where it changes."""
        source = self._sources.lengths[pool] + random.integers(2, size=len(pool))
        target = self._targets.lengths[pool] + random.random(len(pool))
        return pool[np.lexsort((np.where(source % 2, target, -target), source))]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        """As many neighbours to a batch as fit."""
        sources, targets = self._sources.lengths[order], self._targets.lengths[order]
        most = self._settings.sentences or len(order)
        tokens = self._settings.tokens
        batches, first = [], 0
        while first < len(order):
            size = most
            if tokens is not None:
                # Each pair takes at least what the first does: look no further than that allows.
                size = min(most, max(1, tokens // int(sources[first] + targets[first])))
                window = slice(first, first + size)
                widths = np.maximum.accumulate(sources[window])
                widths = widths + np.maximum.accumulate(targets[window])
                positions = widths * np.arange(1, len(widths) + 1)
                size = max(1, int(np.searchsorted(positions, tokens, side="right")))
            batches.append(order[first : first + size])
            first += size
        return batches

    def _batch(self, indices: np.ndarray) -> PairBatch:
        outputs = self._targets.tokens(indices)
        inputs = torch.full_like(outputs.ids, START)
        inputs[:, 1:] = outputs.ids[:, :-1]
        return PairBatch(self._sources.tokens(indices), inputs, outputs.ids, outputs.mask)


class _Side:
    """All sequences of one side, one after the other: four bytes a token, twelve a sequence."""

    def __init__(self, name: str, sequences: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter(map(len, sequences), np.int32, len(sequences))
        if not self.lengths.all():
            raise ValueError(
                f"{name} {int(np.argmin(self.lengths))} is empty: expected at least one token"
            )
        ends = np.cumsum(self.lengths, dtype=np.int64)
        self._starts = ends - self.lengths
        size = int(ends[-1]) if len(ends) else 0
        self.numbers = np.fromiter(chain.from_iterable(sequences), np.int32, size)

    def tokens(self, indices: np.ndarray) -> Tokens:
        lengths = self.lengths[indices, None]
        positions = np.arange(lengths.max())
        mask = positions < lengths
        ids = np.full(mask.shape, PAD, dtype=np.int64)
        ids[mask] = self.numbers[(self._starts[indices, None] + positions)[mask]]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))
