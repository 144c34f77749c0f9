"""Pictures with captions, as numbers: what batches are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from regard.data.batch import Cells, PairBatch, Pictures, with_targets


@dataclass(frozen=True)
class Gallery:
    """Pictures of one size, or the cells that a backbone made of them, by the names of their
    sources."""

    values: np.ndarray
    """Axes picture, channel, height and width; or picture, cell and feature."""
    names: tuple[str, ...]

    def batch(self, places: np.ndarray) -> Pictures | Cells:
        """Those at these places."""
        values = torch.from_numpy(np.ascontiguousarray(self.values[places]))
        return Pictures(values) if self.values.ndim == 4 else Cells(values)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each is."""
        return {name: place for place, name in enumerate(self.names)}


@dataclass(frozen=True)
class EncodedCaptions:
    """Captions as token numbers, each with the place of its picture. ValueError where they differ
    in number or a caption is empty."""

    gallery: Gallery
    pictures: np.ndarray
    captions: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if len(self.pictures) != len(self.captions):
            raise ValueError(f"{len(self.pictures)} pictures and {len(self.captions)} captions")
        if not all(self.captions):
            raise ValueError("a caption is empty: expected at least one token")

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def source_lengths(self) -> np.ndarray:
        """Pictures are all alike."""
        return np.zeros(len(self), np.int32)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        return np.fromiter(map(len, self.captions), np.int32, len(self.captions))

    @property
    def digest(self) -> str:
        """The same for the same pictures and captions, and for no others."""
        told = hashlib.sha256(np.ascontiguousarray(self.gallery.values).tobytes())
        told.update(self.pictures.tobytes())
        for caption in self.captions:
            told.update(len(caption).to_bytes(4, "little"))
            told.update(np.asarray(caption, np.int64).tobytes())
        return told.hexdigest()

    def batch(self, indices: np.ndarray) -> PairBatch:
        """These, padded."""
        source = self.gallery.batch(self.pictures[indices])
        return with_targets(source, [self.captions[place] for place in indices.tolist()])
