"""Key-value cache: keys and values of all steps of decoding, extended without a copy.

    storage   k1 k2 k3 k4 .. .. .. ..      with room for more vectors; `filled` is 4
    state 1   k1 k2 k3 k4                  vectors that a decoder state refers to
    state 2   k1 k2 k3 k4 k5               extends state 1 in the same storage, which ended with it
    state 3   k1 k2 k3 k4 x5               extends state 1 in a copy, as the storage has more by now

So a state never changes, whatever other states extend it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.attention.multihead import PreparedHeads
from regard.attention.prepared import AdditiveKeys
from regard.shapes import Float, Int, Tensor

MIN_CAPACITY = 64
"""Minimum number of vectors in a new storage."""


@dataclass
class Storage:
    """Tensor whose first `filled` positions are in use."""

    rows: Float[Tensor, "*batch capacity part"]
    filled: int


@dataclass(frozen=True)
class CachedVectors:
    """Vectors at the beginning of a storage."""

    storage: Storage
    length: int

    @classmethod
    def of(cls, vectors: Float[Tensor, "*batch source part"]) -> CachedVectors:
        return cls(Storage(vectors, vectors.size(-2)), vectors.size(-2))

    @property
    def vectors(self) -> Float[Tensor, "*batch source part"]:
        rows = self.storage.rows  # without slicing, if possible: gradients would copy a slice
        return rows if self.length == rows.size(-2) else rows[..., : self.length, :]

    def fits(self, more: Float[Tensor, "*batch source part"]) -> bool:
        """Whether these vectors have the size of the cached ones."""
        return self.storage.rows.size(-1) == more.size(-1)

    def with_room(self, number: int) -> CachedVectors:
        """Return the vectors followed by this number of others, which the caller has to write to
        the storage."""
        storage, length = self.storage, self.length + number
        if storage.filled != self.length or length > storage.rows.size(-2):
            *batch, _, part = storage.rows.shape
            capacity = max(2 * length, MIN_CAPACITY)
            storage = Storage(storage.rows.new_empty(*batch, capacity, part), self.length)
            storage.rows[..., : self.length, :] = self.vectors
        storage.filled = length
        return CachedVectors(storage, length)

    def append(self, more: Float[Tensor, "*batch source part"]) -> CachedVectors:
        """Return the vectors followed by others of the same batch and size.

        With gradients nothing is written in place. Tensors of inference mode are not written to
        outside it, which PyTorch forbids."""
        rows = self.storage.rows
        needs_grad = torch.is_grad_enabled() and (more.requires_grad or rows.requires_grad)
        if needs_grad or rows.is_inference() > torch.is_inference_mode_enabled():
            return CachedVectors.of(torch.cat([self.vectors, more], dim=-2))
        longer = self.with_room(more.size(-2))
        longer.storage.rows[..., self.length : longer.length, :] = more
        return longer

    def keep(self, sentences: Int[Tensor, "kept"], dim: int = 0) -> CachedVectors:
        """Return the vectors of some sentences, whose axis is `dim`."""
        rows = self.storage.rows.index_select(dim, sentences)
        return CachedVectors(Storage(rows, self.length), self.length)


@dataclass(frozen=True)
class KVCache:
    """Prepared keys and values of every head. A new cache is empty."""

    _parts: tuple[CachedVectors, ...] = ()
    """Keys, values and, if all additive keys have them, the powers of the keys."""
    _are_additive: bool = False

    @property
    def length(self) -> int:
        return self._parts[0].length if self._parts else 0

    @property
    def prepared(self) -> PreparedHeads:
        """All keys and values, as a score takes them."""
        keys, values, *powers = (part.vectors for part in self._parts)
        return PreparedHeads(AdditiveKeys(keys, *powers) if self._are_additive else keys, values)

    def append(self, more: PreparedHeads) -> KVCache:
        """Return the cache followed by keys "batch head source part" and values "batch head source
        value" of the same sizes. Powers are kept if all appended keys have them."""
        are_additive = isinstance(more.keys, AdditiveKeys)
        if isinstance(more.keys, AdditiveKeys):
            parts = (more.keys.projected, more.values, more.keys.powers)
            new = [part for part in parts if part is not None]
            if len(new) == len(self._parts) == 3 and not self._parts[-1].fits(new[-1]):
                del new[-1]  # some keys have split powers and others do not
        else:
            new = [more.keys, more.values]
        if not self._parts:
            return KVCache(tuple(CachedVectors.of(part) for part in new), are_additive)
        extended = (part.append(more) for part, more in zip(self._parts, new, strict=False))
        return KVCache(tuple(extended), are_additive)

    def keep(self, sentences: Int[Tensor, "kept"]) -> KVCache:
        return KVCache(tuple(part.keep(sentences) for part in self._parts), self._are_additive)
