"""Random permutations of any size whose places are computed one by one, so that none is stored."""

from __future__ import annotations

import numpy as np

ROUNDS = 32
"""A place keeps its value in all rounds with a probability of 2 to the power of -32."""
STEP = np.uint64(0x9E3779B97F4A7C15)
"""Difference of the keys of two rounds: 2 to the power of 64 over the golden ratio."""


def permuted(places: np.ndarray, sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return where permutations move places: element i is moved by the permutation of
    `sizes[i]` places with the key `keys[i]`.

    This is the swap-or-not shuffle of Hoang, Morris and Rogaway (2012), "An enciphering scheme
    based on a card shuffle". Each round pairs every place x with K - x, and swaps the two if a
    random bit, which both have in common, is set.

    Args:
        places: [elements], integers from 0 up to the size.
        sizes: [elements], positive integers.
        keys: [elements] uint64.

    Returns:
        [elements] int64, from 0 up to the size.
    """
    here, sizes, key = (values.astype(np.uint64) for values in (places, sizes, keys))
    for _ in range(ROUNDS):
        key = key + STEP
        there = (mixed(key) % sizes + sizes - here) % sizes
        is_swapped = mixed(np.maximum(here, there) ^ mixed(key ^ STEP)) >> np.uint64(63)
        here = np.where(is_swapped == 1, there, here)
    return here.astype(np.int64)


def mixed(values: np.ndarray) -> np.ndarray:
    """Return [elements] uint64 whose bits all depend on all bits of the values: the last step of
    SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
