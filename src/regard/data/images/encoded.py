"""Pictures with captions, as numbers: what batches are made of."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from regard.data.batch import GridFeatures, Images, PairBatch, with_targets
from regard.shapes import Tensor


def as_source(values: np.ndarray, rows: Tensor | None = None) -> Images | GridFeatures:
    """Pictures (picture, channel, height, width), or cells that were made of them (picture, cell,
    feature), for rows of a batch that are about them."""
    numbers = torch.from_numpy(values)
    return GridFeatures(numbers, rows) if values.ndim == 3 else Images(numbers, rows)


@dataclass(frozen=True)
class ImageSet:
    """Pictures of one size, or what a pretrained network made of them, by the names of their
    sources. They may lie in a file."""

    values: np.ndarray
    """Axes as `as_source` takes them."""
    places: dict[str, int]
    """Where each is; what could not be read is nowhere."""
    digest: str
    """The same for the same pictures, and for no others."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.places)

    def pictures(self, names: Sequence[str]) -> list[tuple[str, np.ndarray]]:
        """Those of these names, with them."""
        return [(name, self.values[self.places[name]]) for name in names]


@dataclass(frozen=True)
class EncodedCaptions:
    """Captions as token numbers, all those of one picture together: a model sees a picture once for
    all that is said of it."""

    image_set: ImageSet
    pictures: np.ndarray
    """The place of every captioned picture in the gallery."""
    captions: Sequence[Sequence[Sequence[int]]]
    """What is said of each."""

    @classmethod
    def of(cls, image_set: ImageSet, pairs: Iterable[tuple[int, Sequence[int]]]) -> EncodedCaptions:
        """From pairs of a picture's place and a caption. ValueError where one is empty."""
        said: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
        for place, caption in pairs:
            if not caption:
                raise ValueError("a caption is empty: expected at least one token")
            said[place].append(caption)
        return cls(image_set, np.fromiter(said, np.int64, len(said)), list(said.values()))

    def __len__(self) -> int:
        """How many pictures have captions."""
        return len(self.captions)

    @cached_property
    def num_captions(self) -> int:
        return sum(map(len, self.captions))

    @property
    def source_lengths(self) -> np.ndarray:
        """Pictures are all alike."""
        return np.zeros(len(self), np.int32)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """Of each picture's longest caption."""
        longest = (max(map(len, said)) for said in self.captions)
        return np.fromiter(longest, np.int32, len(self))

    @cached_property
    def digest(self) -> str:
        """The same for the same pictures and captions, and for no others."""
        told = hashlib.sha256(self.image_set.digest.encode())
        for place, said in zip(self.pictures.tolist(), self.captions, strict=True):
            for caption in said:
                told.update(np.asarray([place, len(caption), *caption], np.int64).tobytes())
        return told.hexdigest()

    def batch(self, indices: np.ndarray) -> PairBatch:
        """All captions of these pictures, padded."""
        said = [self.captions[place] for place in indices.tolist()]
        rows = torch.repeat_interleave(torch.tensor([len(each) for each in said]))
        source = as_source(self.image_set.values[self.pictures[indices]], rows)
        return with_targets(source, [caption for each in said for caption in each])
