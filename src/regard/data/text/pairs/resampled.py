"""Batches whose texts are split into other subwords in each epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from regard.data.batch import PairBatch, pair_batch
from regard.data.batching import PairBatches
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.stored import StoredPairs


class ResampledBatches:
    """Batches of pairs with BPE-dropout.

    The pairs of a batch are chosen by the lengths of the tokenizer's own pieces. The number of
    batches is therefore that without dropout, and batches have more tokens than their
    settings allow. The random numbers of a batch follow from the seed, the epoch and the place of
    the batch in the epoch, so a resumed run continues with equal batches.
    """

    def __init__(
        self,
        batches: PairBatches,
        pairs: EncodedPairs | StoredPairs,
        sides: tuple[BpeDropout | None, BpeDropout | None],
        max_length: int,
        seed: int,
    ) -> None:
        """`sides` are the splits of source and target; None leaves a side unchanged. A sequence
        that would have more than `max_length` tokens is also left unchanged."""
        self._batches = batches
        self._pairs = pairs
        self._sides = sides
        self._max_length = max_length
        self._seed = seed

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._batches)

    def num_batches(self, number: int) -> int:
        """Return the number of batches in this epoch."""
        return self._batches.num_batches(number)

    def fingerprint(self) -> str:
        """Return a digest of the pairs, of their arrangement in batches, and of the dropouts."""
        dropouts = [side and side.probability for side in self._sides]
        content = repr((self._batches.fingerprint(), dropouts, self._max_length, self._seed))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def epoch(self, number: int, start: int = 0) -> Iterator[PairBatch]:
        """Yield the batches of an epoch after the first `start`."""
        for place, indices in enumerate(self._batches.indices(number, start), start):
            words = np.random.SeedSequence((self._seed, number, place)).generate_state(4)
            random = Random(int.from_bytes(words.tobytes(), "little"))
            pairs = [self._resampled(self._pairs.pair(index), random) for index in indices.tolist()]
            yield pair_batch([source for source, _ in pairs], [target for _, target in pairs])

    def _resampled(
        self, pair: tuple[list[int], list[int]], random: Random
    ) -> tuple[Sequence[int], Sequence[int]]:
        source, target = (
            self._side(side, ids, random) for side, ids in zip(self._sides, pair, strict=True)
        )
        return source, target

    def _side(self, side: BpeDropout | None, ids: list[int], random: Random) -> Sequence[int]:
        if side is None:
            return ids
        resampled = side.resample(ids, random)
        return resampled if len(resampled) <= self._max_length else ids
