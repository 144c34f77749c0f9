"""Pictures with captions, as numbers: what batches are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from regard.data.batch import PairBatch, Pictures, with_targets
from regard.shapes import UInt8


@dataclass(frozen=True)
class Gallery:
    """Pictures of one size, with the names of their sources."""

    values: UInt8[np.ndarray, "picture channel height width"]
    names: tuple[str, ...]

    def batch(self, places: np.ndarray) -> Pictures:
        """Those at these places."""
        return Pictures(torch.from_numpy(self.values[places]))

    def pictures(self, names: Sequence[str]) -> list[tuple[str, np.ndarray]]:
        """Those of these names, with them."""
        return [(name, self.values[self.places[name]]) for name in names]

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

    @cached_property
    def digest(self) -> str:
        """The same for the same pictures and captions, and for no others."""
        told = hashlib.sha256(np.ascontiguousarray(self.gallery.values).data)
        told.update(self.pictures.tobytes())
        for caption in self.captions:
            told.update(len(caption).to_bytes(4, "little"))
            told.update(np.asarray(caption, np.int64).tobytes())
        return told.hexdigest()

    def batch(self, indices: np.ndarray) -> PairBatch:
        """These, padded."""
        source = self.gallery.batch(self.pictures[indices])
        return with_targets(source, [self.captions[place] for place in indices.tolist()])
