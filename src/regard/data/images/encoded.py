"""Encoded images with captions, from which batches are made."""

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
    """Return images (image, channel, height, width), or features of their cells (image, cell,
    feature), as the source of a batch. `rows` is the number of the image of each caption."""
    numbers = torch.from_numpy(values)
    return GridFeatures(numbers, rows) if values.ndim == 3 else Images(numbers, rows)


@dataclass(frozen=True)
class ImageSet:
    """Images of one size, or features of a pretrained backbone, in memory or in a file, by the
    names of their sources."""

    values: np.ndarray
    """Array with the axes of `as_source`."""
    places: dict[str, int]
    """Row of each source. Images that could not be read are missing."""
    digest: str
    """Digest of the images."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.places)

    def images(self, names: Sequence[str]) -> list[tuple[str, np.ndarray]]:
        """Return the named images, each with its name."""
        return [(name, self.values[self.places[name]]) for name in names]


@dataclass(frozen=True)
class EncodedCaptions:
    """Captions as token numbers, grouped by image, so that an encoder runs once for all captions of
    an image."""

    image_set: ImageSet
    images: np.ndarray
    """Row of each captioned image in the image set."""
    captions: Sequence[Sequence[Sequence[int]]]
    """Captions of each image."""

    @classmethod
    def of(cls, image_set: ImageSet, pairs: Iterable[tuple[int, Sequence[int]]]) -> EncodedCaptions:
        """Group pairs of an image's row and a caption. ValueError for an empty caption."""
        captions: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
        for row, caption in pairs:
            if not caption:
                raise ValueError("a caption is empty: expected at least 1 token")
            captions[row].append(caption)
        rows = np.fromiter(captions, np.int64, len(captions))
        return cls(image_set, rows, list(captions.values()))

    def __len__(self) -> int:
        """Return the number of images with captions."""
        return len(self.captions)

    @cached_property
    def num_captions(self) -> int:
        return sum(map(len, self.captions))

    @property
    def source_lengths(self) -> np.ndarray:
        """Zeros, because all images have one size."""
        return np.zeros(len(self), np.int32)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """Length of the longest caption of each image."""
        longest = (max(map(len, captions)) for captions in self.captions)
        return np.fromiter(longest, np.int32, len(self))

    @cached_property
    def digest(self) -> str:
        """Digest of the images and captions."""
        digest = hashlib.sha256(self.image_set.digest.encode())
        for row, captions in zip(self.images.tolist(), self.captions, strict=True):
            for caption in captions:
                digest.update(np.asarray([row, len(caption), *caption], np.int64).tobytes())
        return digest.hexdigest()

    def batch(self, indices: np.ndarray) -> PairBatch:
        """Return a padded batch of all captions of the images with these numbers."""
        groups = [self.captions[number] for number in indices.tolist()]
        rows = torch.repeat_interleave(torch.tensor(list(map(len, groups))))
        source = as_source(self.image_set.values[self.images[indices]], rows)
        return with_targets(source, [caption for captions in groups for caption in captions])
