"""Encoded pairs, in arrays in memory.

numbers            source 0, target 0, source 1, target 1, ...
                   for models that copy: source 0, copies 0, target 0, source 1, ...
source_lengths     number of tokens of each source
target_lengths     number of tokens of each target
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch

from regard.data.batch import PAD, START, PairBatch, Tokens

CHUNK = 1 << 20
"""Number of token numbers that are digested together."""


class EncodedPairs:
    """Sources and targets as token numbers. Targets end with END."""

    def __init__(
        self,
        numbers: np.ndarray,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        has_copies: bool = False,
    ) -> None:
        """`has_copies` is true if a number to copy follows for each number of a source."""
        self.has_copies = has_copies
        self.numbers = numbers
        self.source_lengths = source_lengths
        self.target_lengths = target_lengths
        lengths = np.add(source_lengths, target_lengths, dtype=np.int64)
        if has_copies:
            lengths += source_lengths
        self._starts = np.cumsum(lengths) - lengths
        self._lengths = lengths

    @classmethod
    def of(
        cls,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        copies: Sequence[Sequence[int]] | None = None,
    ) -> EncodedPairs:
        """Return encoded pairs in memory, with the numbers to copy of each source, if any.
        ValueError if the numbers of sources and targets differ, or if a sequence is empty."""
        if len(sources) != len(targets):
            raise ValueError(
                f"got {len(sources)} sources and {len(targets)} targets: expected equal numbers"
            )
        sides = [sources, targets] if copies is None else [sources, copies, targets]
        tokens = chain.from_iterable(chain.from_iterable(zip(*sides, strict=True)))
        numbers = np.fromiter(tokens, np.int32)
        lengths = _lengths("source", sources), _lengths("target", targets)
        return cls(numbers, *lengths, has_copies=copies is not None)

    @classmethod
    def joined(cls, parts: Iterable[EncodedPairs]) -> EncodedPairs:
        """Concatenate encoded pairs in memory."""
        parts = list(parts)
        if not parts:
            return cls.of([], [])
        columns = [(part.numbers, part.source_lengths, part.target_lengths) for part in parts]
        numbers, sources, targets = map(np.concatenate, zip(*columns, strict=True))
        return cls(numbers, sources, targets, has_copies=parts[0].has_copies)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source_lengths)

    @cached_property
    def digest(self) -> str:
        """Digest of the pairs."""
        digest = hashlib.sha256()
        _add(digest, self.numbers)
        for lengths in (self.source_lengths, self.target_lengths):
            digest.update(len(lengths).to_bytes(8, "little"))
            _add(digest, lengths)
        return digest.hexdigest()

    @property
    def num_tokens(self) -> int:
        """Number of token numbers."""
        return len(self.numbers)

    def taken(self, indices: np.ndarray) -> EncodedPairs:
        """Return the pairs with these numbers, in this order."""
        lengths = self._lengths[indices]
        before = np.cumsum(lengths) - lengths
        places = np.repeat(self._starts[indices] - before, lengths) + np.arange(lengths.sum())
        sides = self.source_lengths[indices], self.target_lengths[indices]
        return EncodedPairs(self.numbers[places], *sides, has_copies=self.has_copies)

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        """Return the token numbers of one source and its target. ValueError with copies."""
        if self.has_copies:
            raise ValueError("pairs have numbers to copy: read them as a batch")
        start = self._starts[index]
        middle = start + self.source_lengths[index]
        end = middle + self.target_lengths[index]
        return self.numbers[start:middle].tolist(), self.numbers[middle:end].tolist()

    def batch(self, indices: np.ndarray) -> PairBatch:
        """Return a padded batch of the pairs with these numbers."""
        starts, lengths = self._starts[indices], self.source_lengths[indices]
        source, middles = self._tokens(starts, lengths), starts + lengths
        if self.has_copies:
            source = replace(source, copies=self._tokens(middles, lengths).ids)
            middles = middles + lengths
        outputs = self._tokens(middles, self.target_lengths[indices])
        inputs = torch.full_like(outputs.ids, START)
        inputs[:, 1:] = outputs.ids[:, :-1]
        return PairBatch(source, inputs, outputs.ids, outputs.mask)

    def _tokens(self, starts: np.ndarray, lengths: np.ndarray) -> Tokens:
        positions = np.arange(lengths.max())
        mask = positions < lengths[:, None]
        ids = np.full(mask.shape, PAD, dtype=np.int64)
        ids[mask] = self.numbers[(starts[:, None] + positions)[mask]]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))


def _lengths(name: str, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    lengths = np.fromiter(map(len, sequences), np.int32, len(sequences))
    if not lengths.all():
        raise ValueError(f"{name} {int(np.argmin(lengths))} is empty: expected at least 1 token")
    return lengths


def _add(digest: Any, numbers: np.ndarray) -> None:
    """Add numbers to a digest, independent of their type."""
    for first in range(0, len(numbers), CHUNK):
        digest.update(numbers[first : first + CHUNK].astype("<i4").tobytes())
