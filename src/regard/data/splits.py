"""Holding pairs out so that no source is in two parts. A source is known by eight bytes, so that
millions of pairs can be dealt out without their texts."""

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
"""The parts by number."""
MOST_HELD_OUT = 500
"""Pairs for dev and for test, at most, if no size is set."""


class SplitPairs(NamedTuple):
    """What pairs were split into."""

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]


def canonical_text(text: str) -> str:
    """What two texts share that differ only in case, white space or Unicode normal form."""
    return unicodedata.normalize("NFC", " ".join(text.split()).casefold())


def mark(text: str) -> int:
    """Eight bytes that are the same for texts with one `canonical_text`. Among five million
    others two are alike with a probability of one in a million, and then held out together."""
    told = canonical_text(text).encode("utf8", errors="surrogatepass")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "little")


def source_hashes(pairs: Iterable[Pair]) -> np.ndarray:
    """The mark of each pair's source."""
    return np.fromiter((mark(pair.source) for pair in pairs), np.uint64)


def assign_splits(marks: np.ndarray, most: tuple[int, int], seed: int) -> np.ndarray:
    """The part of each pair, by its source's mark: dev and test get no more than `most`, and fewer
    where they cannot be filled. Sources are dealt out in an order drawn from the seed."""
    _, first, groups, sizes = np.unique(
        marks, return_index=True, return_inverse=True, return_counts=True
    )
    order = array("Q", np.argsort(first).astype(np.uint64).tobytes())
    random.Random(seed).shuffle(order)
    part_of, room = np.zeros(len(sizes), np.uint8), [0, *most]
    for group in order:
        if not any(room):
            break
        size = int(sizes[group])
        part = next((part for part in (DEV, TEST) if room[part] >= size), TRAIN)
        if part != TRAIN:
            room[part] -= size
            part_of[group] = part
    return part_of[groups]


def hold_out(pairs: Sequence[Pair], most: tuple[int, int], seed: int) -> SplitPairs:
    """As `split_held_out`, but dev and test get fewer pairs where they cannot be filled."""
    part_of = assign_splits(source_hashes(pairs), most, seed)
    parts = (np.flatnonzero(part_of == part).tolist() for part in (TRAIN, DEV, TEST))
    return SplitPairs(*(tuple(pairs[place] for place in places) for places in parts))


def split_held_out(pairs: Sequence[Pair], sizes: tuple[int, int], seed: int) -> SplitPairs:
    """Hold pairs out for dev and test so that no source is in two parts.

    Sources with one `canonical_text` stay together with all their targets. The same seed
    gives the same split; each part keeps the order that came. UserError where the pairs are too
    few, or share their sources so much that a part cannot be filled.
    """
    if min(sizes) < 0 or sum(sizes) > len(pairs):
        raise UserError(f"cannot hold out {sizes[0]} and {sizes[1]} of {len(pairs)} pairs")
    parts = hold_out(pairs, sizes, seed)
    if (len(parts.dev), len(parts.test)) != sizes:
        num_sources = len({canonical_text(pair.source) for pair in pairs})
        raise UserError(
            f"cannot hold out {sizes[0]} and {sizes[1]} of {len(pairs)} pairs: they have only "
            f"{num_sources} different sources, and those with one source stay together"
        )
    return parts
