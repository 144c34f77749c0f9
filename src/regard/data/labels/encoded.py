"""Encoded sources with one label or number each, from which batches are made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from regard.data.batch import PAD, ClassificationBatch, Items, Numbers, Tokens


@dataclass(frozen=True)
class EncodedSource:
    """Source as token numbers, as numbers at each position, or as both (items)."""

    ids: Sequence[int] | None = None
    values: np.ndarray | None = None
    """Numbers with the axes position and feature."""
    is_cut: bool = False
    """Whether positions beyond the limit were cut off."""

    def __len__(self) -> int:
        content = self.values if self.ids is None else self.ids
        return 0 if content is None else len(content)

    def cut(self, longest: int) -> EncodedSource:
        """Return the source without the positions after the first `longest`."""
        ids = None if self.ids is None else self.ids[:longest]
        values = None if self.values is None else self.values[:longest]
        return EncodedSource(ids, values, len(self) > longest)


@dataclass(frozen=True)
class EncodedLabels:
    """Encoded sources and targets. ValueError if their numbers differ, or if a source is empty."""

    sources: Sequence[EncodedSource]
    targets: np.ndarray
    """Numbers of labels, or rows of numbers."""

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.targets):
            raise ValueError(
                f"got {len(self.sources)} sources and {len(self.targets)} targets: expected equal "
                "numbers"
            )
        if not all(map(len, self.sources)):
            empty = next(n for n, source in enumerate(self.sources) if not len(source))
            raise ValueError(f"source {empty} is empty: expected at least 1 position")

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        return np.fromiter(map(len, self.sources), np.int32, len(self.sources))

    @property
    def target_lengths(self) -> np.ndarray:
        """Zeros, because a target takes no positions of a batch."""
        return np.zeros(len(self), np.int32)

    @cached_property
    def digest(self) -> str:
        """Digest of the examples."""
        digest = hashlib.sha256(self.targets.tobytes())
        for source in self.sources:
            digest.update(len(source).to_bytes(4, "little"))
            digest.update(np.asarray(source.ids or [], np.int64).tobytes())
            digest.update(b"" if source.values is None else source.values.tobytes())
        return digest.hexdigest()

    def batch(self, indices: np.ndarray) -> ClassificationBatch:
        """Return a padded batch of the examples with these numbers."""
        sources = [self.sources[number] for number in indices.tolist()]
        return ClassificationBatch(pad_sources(sources), torch.from_numpy(self.targets[indices]))


def pad_sources(sources: Sequence[EncodedSource]) -> Tokens | Numbers | Items:
    """Return sources of one kind as padded tensors. ValueError if a source is empty of content or
    of another kind."""
    lengths = torch.tensor(list(map(len, sources)))
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    first = sources[0]
    names = None
    if first.ids is not None:
        ids = torch.full(mask.shape, PAD)
        ids[mask] = torch.tensor([number for source in sources for number in source.ids or ()])
        names = Tokens(ids, mask)
    if first.values is None:
        if names is None:
            raise ValueError("a source has neither tokens nor numbers")
        return names
    values = torch.zeros(*mask.shape, first.values.shape[1])
    values[mask] = torch.from_numpy(np.concatenate([_values(source) for source in sources]))
    return Numbers(values, mask) if names is None else Items(names, values)


def _values(source: EncodedSource) -> np.ndarray:
    if source.values is None:
        raise ValueError("some sources of a batch have numbers and others have none")
    return source.values
