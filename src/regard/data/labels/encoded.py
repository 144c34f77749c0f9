"""Sources with one answer each, as numbers: what batches are made of."""

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
    """One source: token numbers, or numbers at each position, or both, as items have."""

    ids: Sequence[int] | None = None
    values: np.ndarray | None = None
    """Axes position and feature."""
    is_cut: bool = False
    """Whether it had more than may be read."""

    def __len__(self) -> int:
        content = self.values if self.ids is None else self.ids
        return 0 if content is None else len(content)

    def cut(self, longest: int) -> EncodedSource:
        """The same without what is beyond so many positions."""
        ids = None if self.ids is None else self.ids[:longest]
        values = None if self.values is None else self.values[:longest]
        return EncodedSource(ids, values, len(self) > longest)


@dataclass(frozen=True)
class EncodedLabels:
    """Sources and their answers, ready to be dealt out in batches of like lengths. ValueError
    where they differ in number or a source is empty."""

    sources: Sequence[EncodedSource]
    answers: np.ndarray
    """Numbers of classes, or rows of numbers to come near to."""

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.answers):
            raise ValueError(f"{len(self.sources)} sources and {len(self.answers)} answers")
        if not all(map(len, self.sources)):
            empty = next(n for n, source in enumerate(self.sources) if not len(source))
            raise ValueError(f"source {empty} is empty: expected at least one position")

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        return np.fromiter(map(len, self.sources), np.int32, len(self.sources))

    @property
    def target_lengths(self) -> np.ndarray:
        """An answer takes no room in a batch."""
        return np.zeros(len(self), np.int32)

    @cached_property
    def digest(self) -> str:
        """The same for the same examples, and for no others."""
        told = hashlib.sha256(self.answers.tobytes())
        for source in self.sources:
            told.update(len(source).to_bytes(4, "little"))
            told.update(np.asarray(source.ids or [], np.int64).tobytes())
            told.update(b"" if source.values is None else source.values.tobytes())
        return told.hexdigest()

    def batch(self, indices: np.ndarray) -> ClassificationBatch:
        """These examples, padded."""
        sources = [self.sources[place] for place in indices.tolist()]
        return ClassificationBatch(pad_sources(sources), torch.from_numpy(self.answers[indices]))


def pad_sources(sources: Sequence[EncodedSource]) -> Tokens | Numbers | Items:
    """One padded block of sources of one kind."""
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
            raise ValueError("a source holds neither tokens nor numbers")
        return names
    values = torch.zeros(*mask.shape, first.values.shape[1])
    values[mask] = torch.from_numpy(np.concatenate([_values(source) for source in sources]))
    return Numbers(values, mask) if names is None else Items(names, values)


def _values(source: EncodedSource) -> np.ndarray:
    if source.values is None:
        raise ValueError("some sources of a batch have numbers and some have none")
    return source.values
