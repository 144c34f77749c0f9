"""State of a native recurrent decoder: arrays of the last step, and the row that each hypothesis
extends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from regard.attention import AdditiveKeys
from regard.compiled.native import check_state
from regard.models.memory import PreparedMemory
from regard.models.recurrent.attention import CrossAttentionState
from regard.models.recurrent.parts import RecurrentState
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class NativeState:
    """Recurrent states of all rows of the last step, and for each hypothesis the number of the row
    that it extends, its parent. A row is a hypothesis of a sentence. The next step copies the
    states of the parents, so selecting hypotheses copies none.

    The memory of sentences that are done stays where it is: `entries` has the number of each
    sentence among the stored ones."""

    memory: PreparedMemory
    mask: Bool[Tensor, "stored source"] | None
    entries: Int[Tensor, "batch"]
    hidden: Float[Tensor, "layer row hidden"]
    cell: Float[Tensor, "layer row hidden"] | None
    fed: Float[Tensor, "row fed"]
    parents: Int[Tensor, "batch hypothesis"]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> NativeState:
        return replace(self, parents=self.parents.gather(1, hypotheses))

    def keep(self, sentences: Int[Tensor, "kept"]) -> NativeState:
        return replace(self, entries=self.entries[sentences], parents=self.parents[sentences])

    def check(self, num_layers: int, size: int, sizes: tuple[int, int, int]) -> None:
        """ValueError unless this is a state of a decoder with these numbers of layers and sizes of
        states, keys, values and fed vectors."""
        keys, powers, values = self.keys, self.powers, self.memory.values
        if not self.hidden.dim() == keys.dim() == 3 or self.parents.dim() != 2:
            raise ValueError("state: expected one that start or step of this decoder returned")
        (stored, source, _), rows = keys.shape, self.hidden.size(1)
        states = (num_layers, rows, size)
        key_size, value_size, fed_size = sizes
        power_size = 0 if powers is None else (2 if powers.size(-1) != key_size else 1) * key_size
        check_state(
            ("keys", keys, (stored, source, key_size), torch.float32),
            ("values", values, (stored, source, value_size), torch.float32),
            ("hidden", self.hidden, states, torch.float32),
            ("fed", self.fed, (rows, fed_size), torch.float32),
            ("entries", self.entries, (len(self.parents),), torch.int64),
            ("parents", self.parents, tuple(self.parents.shape), torch.int64),
            ("cell", self.cell, states, torch.float32),
            ("mask", self.mask, (stored, source), torch.bool),
            ("powers", powers, (stored, source, power_size), torch.float32),
        )

    @property
    def keys(self) -> Float[Tensor, "stored source key"]:
        return keys_of(self.memory)

    @property
    def powers(self) -> Float[Tensor, "stored source power"] | None:
        """Powers of the keys of an additive score."""
        prepared = self.memory.prepared
        return prepared.powers if isinstance(prepared, AdditiveKeys) else None

    def plain(self) -> RecurrentState:
        """Return the state of the reference."""

        def selected(states: Float[Tensor, "layer row hidden"]) -> Tensor:
            return states[:, self.parents].permute(1, 2, 0, 3)

        return RecurrentState(
            selected(self.hidden),
            None if self.cell is None else selected(self.cell),
            self.fed[self.parents],
            CrossAttentionState(self.memory.keep(self.entries)),
        )


def keys_of(memory: PreparedMemory) -> Float[Tensor, "batch source key"]:
    """Return the keys as numbers, projected if the score is additive."""
    prepared = memory.prepared
    return prepared.projected if isinstance(prepared, AdditiveKeys) else prepared
