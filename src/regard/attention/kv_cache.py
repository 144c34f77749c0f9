"""Keys and values to which every step of writing adds some, without copying what is there.

    storage   k1 k2 k3 k4 .. .. .. ..      room for more; `filled` is 4
    one       k1 k2 k3 k4                  what a state of a decoder sees
    next      k1 k2 k3 k4 k5               goes on in the same storage, as `one` is its end
    other     k1 k2 k3 k4 x5               `one` is no longer the end: goes on in a copy

So states never change, however many go on from one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.attention.fused_additive import AdditiveKeys
from regard.attention.multihead import PreparedHeads
from regard.shapes import Float, Int, Tensor

LEAST_ROOM = 32


@dataclass
class _Storage:
    """Rows in a row, the first `filled` of which somebody sees."""

    rows: Float[Tensor, "batch head room part"]
    filled: int


@dataclass(frozen=True)
class CachedVectors:
    """Vectors in a storage with room for more."""

    _storage: _Storage
    length: int

    @classmethod
    def of(cls, vectors: Float[Tensor, "batch head source part"]) -> CachedVectors:
        return cls(_Storage(vectors, vectors.size(2)), vectors.size(2))

    @property
    def vectors(self) -> Float[Tensor, "batch head source part"]:
        rows = self._storage.rows  # whole, where it is: a part costs a copy on the way back
        return rows if self.length == rows.size(2) else rows[:, :, : self.length]

    def fits(self, more: Float[Tensor, "batch head source part"]) -> bool:
        """Whether these vectors can be appended."""
        return self._storage.rows.size(-1) == more.size(-1)

    def append(self, more: Float[Tensor, "batch head source part"]) -> CachedVectors:
        """These after those, of the same batch, heads and part. Where a gradient is wanted nothing
        is written in place, and what was made in inference mode is not written to outside of it,
        which torch forbids."""
        rows = self._storage.rows
        wanted = torch.is_grad_enabled() and (more.requires_grad or rows.requires_grad)
        if wanted or rows.is_inference() > torch.is_inference_mode_enabled():
            return CachedVectors.of(torch.cat([self.vectors, more], dim=2))
        storage, length = self._storage, self.length + more.size(2)
        if storage.filled != self.length or length > storage.rows.size(2):
            batch, num_heads, _, part = more.shape
            room = max(2 * length, LEAST_ROOM)
            storage = _Storage(more.new_empty(batch, num_heads, room, part), self.length)
            storage.rows[:, :, : self.length] = self.vectors
        storage.rows[:, :, self.length : length] = more
        storage.filled = length
        return CachedVectors(storage, length)

    def keep(self, sentences: Int[Tensor, "kept"]) -> CachedVectors:
        return CachedVectors(_Storage(self._storage.rows[sentences], self.length), self.length)


@dataclass(frozen=True)
class KVCache:
    """PreparedKeys keys and values of every head; none before some are appended."""

    _parts: tuple[CachedVectors, ...] = ()
    """Keys, values and, where they were taken of all keys, the powers of additive ones."""
    _are_additive: bool = False

    @property
    def length(self) -> int:
        return self._parts[0].length if self._parts else 0

    @property
    def prepared(self) -> PreparedHeads:
        """All of them, as a score takes them."""
        keys, values, *powers = (part.vectors for part in self._parts)
        return PreparedHeads(AdditiveKeys(keys, *powers) if self._are_additive else keys, values)

    def append(self, more: PreparedHeads) -> KVCache:
        """Keys "batch head source part" and values "batch head source value" after those there are,
        of which all but `source` has to be the same. Powers are kept if all that came had some."""
        are_additive = isinstance(more.keys, AdditiveKeys)
        if isinstance(more.keys, AdditiveKeys):
            given = (more.keys.projected, more.values, more.keys.powers)
            new = [part for part in given if part is not None]
            if len(new) == len(self._parts) == 3 and not self._parts[-1].fits(new[-1]):
                del new[-1]  # only some of the keys have split powers
        else:
            new = [more.keys, more.values]
        if not self._parts:
            return KVCache(tuple(CachedVectors.of(part) for part in new), are_additive)
        grown = (part.append(some) for part, some in zip(self._parts, new, strict=False))
        return KVCache(tuple(grown), are_additive)

    def keep(self, sentences: Int[Tensor, "kept"]) -> KVCache:
        return KVCache(tuple(part.keep(sentences) for part in self._parts), self._are_additive)
