"""Splits into train, dev and test, such that no source is in two splits. Sources are compared by
hashes of eight bytes, so millions of pairs can be split without their texts."""

from __future__ import annotations

import random
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from regard.data.examples import Pair
from regard.errors import UserError

TRAIN, DEV, TEST = 0, 1, 2
"""Numbers of the splits."""
MAX_HELD_OUT = 500
"""Largest number of dev pairs, and of test pairs, if no size is set."""


class SplitPairs(NamedTuple):
    """Pairs of each split."""

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]


def canonical_text(text: str) -> str:
    """Return a text without differences in case, white space and Unicode normal form."""
    return unicodedata.normalize("NFC", " ".join(text.split()).casefold())


def text_hash(text: str) -> int:
    """Return a hash of eight bytes of the canonical text. Among five million texts two collide with
    a probability of one in a million; colliding sources go to the same split."""
    content = canonical_text(text).encode("utf8", errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def source_hashes(pairs: Iterable[Pair]) -> np.ndarray:
    """Return the hash of the source of each pair."""
    return np.fromiter((text_hash(pair.source) for pair in pairs), np.uint64)


def assign_splits(hashes: np.ndarray, max_sizes: tuple[int, int], seed: int) -> np.ndarray:
    """Return the split of each pair from the hash of its source. Dev and test get at most
    `max_sizes` pairs, and fewer if they cannot be filled. Sources are assigned in a random order,
    drawn with the seed."""
    _, first, groups, sizes = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    order = array("Q", np.argsort(first).astype(np.uint64).tobytes())
    random.Random(seed).shuffle(order)
    split_of, room = np.zeros(len(sizes), np.uint8), [0, *max_sizes]
    for group in order:
        if not any(room):
            break
        size = int(sizes[group])
        split = next((split for split in (DEV, TEST) if room[split] >= size), TRAIN)
        if split != TRAIN:
            room[split] -= size
            split_of[group] = split
    return split_of[groups]


def split_held_out(pairs: Sequence[Pair], sizes: tuple[int, int], seed: int) -> SplitPairs:
    """Hold out dev and test pairs of these sizes, such that no source is in two splits.

    Sources with equal `canonical_text` stay together with all their targets. Equal seeds give equal
    splits; each split keeps the order of the pairs. UserError if there are too few pairs, or if so
    many pairs share their source that a split cannot be filled.
    """
    if min(sizes) < 0 or sum(sizes) > len(pairs):
        raise UserError(f"cannot hold out {sizes[0]} and {sizes[1]} of {len(pairs)} pairs")
    split_of = assign_splits(source_hashes(pairs), sizes, seed)
    places = (np.flatnonzero(split_of == split).tolist() for split in (TRAIN, DEV, TEST))
    splits = SplitPairs(*(tuple(pairs[place] for place in part) for part in places))
    if (len(splits.dev), len(splits.test)) != sizes:
        num_sources = len({canonical_text(pair.source) for pair in pairs})
        raise UserError(
            f"cannot hold out {sizes[0]} and {sizes[1]} of {len(pairs)} pairs: they have only "
            f"{num_sources} different sources, and pairs with equal sources stay together"
        )
    return splits
