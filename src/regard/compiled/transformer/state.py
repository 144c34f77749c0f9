"""State of a native decoder: a cache that hypotheses and sentences share by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from regard.attention import KVCache, PreparedHeads
from regard.attention.kv_cache import CachedVectors
from regard.attention.masks import padding
from regard.compiled.native import check_state
from regard.models.transformer.decoder import TransformerState
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class NativeState:
    """Keys and values of the source and of the tokens before, and the slots of each hypothesis. As
    in `TransformerState`, states share a cache until one of them needs a slot that another uses.

    Keys and values of sentences that are done stay where they are: `entries` has the number of each
    sentence among the stored ones, so no key is copied when sentences leave the batch."""

    memory: Float[Tensor, "layer 2 stored source size"]
    mask: Bool[Tensor, "stored source"] | None
    cache: CachedVectors
    """Vectors "layer 2 stored slot size"."""
    entries: Int[Tensor, "batch"]
    slots: Int[Tensor, "batch hypothesis position"]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> NativeState:
        index = hypotheses[:, :, None].expand(-1, -1, self.slots.size(2))
        slots = self.slots.gather(1, index)
        return NativeState(self.memory, self.mask, self.cache, self.entries, slots)

    def keep(self, sentences: Int[Tensor, "kept"]) -> NativeState:
        state = replace(
            self,
            entries=self.entries.index_select(0, sentences),
            slots=self.slots.index_select(0, sentences),
        )
        if len(set(sentences.tolist())) == len(sentences):
            return state
        return replace(
            state,
            memory=self.memory.index_select(2, state.entries),
            mask=None if self.mask is None else self.mask[state.entries],
            cache=self.cache.keep(state.entries, dim=2),
            entries=torch.arange(len(sentences), device="cpu"),
        )

    def check(self, num_layers: int, size: int) -> None:
        """ValueError unless this is a state of a decoder with these layers."""
        rows, length = self.cache.storage.rows, self.cache.length
        if not self.slots.dim() == 3 or not self.memory.dim() == rows.dim() == 5:
            raise ValueError("state: expected one that start or step of this decoder returned")
        stored, source, capacity = *self.memory.shape[2:4], rows.size(3)
        check_state(
            ("memory", self.memory, (num_layers, 2, stored, source, size), torch.float32),
            ("cache", rows, (num_layers, 2, stored, capacity, size), torch.float32),
            ("entries", self.entries.contiguous(), (len(self.slots),), torch.int64),
            ("slots", self.slots.contiguous(), tuple(self.slots.shape), torch.int64),
            ("mask", self.mask, (stored, source), torch.bool),
        )
        if not 0 <= length <= capacity:
            raise ValueError(f"length of the state: expected 0 to {capacity} slots, got {length}")

    def with_new_slots(self) -> NativeState:
        """Return the state with one more slot for every hypothesis, for its next token."""
        batch, num_hypotheses, _ = self.slots.shape
        cache = self.cache.with_room(num_hypotheses)
        new = torch.arange(self.cache.length, cache.length, device="cpu").view(1, -1, 1)
        slots = torch.cat([self.slots, new.expand(batch, -1, -1)], dim=2)
        return NativeState(self.memory, self.mask, cache, self.entries, slots)

    def plain(self, num_heads: int) -> TransformerState:
        """Return the state of the reference."""

        def heads(rows: Tensor) -> Tensor:
            return rows.unflatten(-1, (num_heads, -1)).transpose(1, 2)

        entries = self.entries
        memory = tuple(PreparedHeads(*map(heads, layer)) for layer in self.memory[:, :, entries])
        cached = self.cache.vectors[:, :, entries]
        caches = tuple(
            KVCache(tuple(CachedVectors.of(heads(rows)) for rows in layer)) for layer in cached
        )
        if not self.cache.length:
            caches = (KVCache(),) * len(cached)
        mask = None if self.mask is None else padding(self.mask[entries])
        return TransformerState(memory, mask, caches, self.slots)
