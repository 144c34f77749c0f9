"""Which of the things an encoder computed become keys and values, and who takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention import PreparedKeys
from regard.layers.positions import Sinusoidal
from regard.models.contracts import Encoded, Memory, Summary
from regard.shapes import Bool, Float, Int, Tensor

BuildMemory = Callable[[Encoded], tuple[Memory, ...]]
"""From all that an encoder computed to what is looked at: several memories for a decoder that looks
at several things."""


def top_layer(encoded: Encoded) -> tuple[Memory]:
    """Keys and values are both the highest layer's states (Bahdanau et al. 2015, Luong et al.
    2015, Vaswani et al. 2017)."""
    states = encoded.layers[-1]
    return (Memory(states, states, encoded.mask, encoded.summary),)


def first_and_last(encoded: Encoded) -> tuple[Memory]:
    """Keys are the first of the layers and values the last; where there is one, it is both."""
    return (Memory(encoded.layers[0], encoded.layers[-1], encoded.mask, encoded.summary),)


@dataclass(frozen=True)
class PreparedMemory:
    """What a recurrent decoder looks at, its keys projected once: one a sentence."""

    prepared: PreparedKeys
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch 1 source"]

    def keep(self, sentences: Int[Tensor, "kept"]) -> PreparedMemory:
        return PreparedMemory(
            self.prepared[sentences], self.values[sentences], self.mask[sentences]
        )


def single_memory(memories: tuple[Memory, ...]) -> Memory:
    """The memory of who looks at one; ValueError where another number came."""
    if len(memories) != 1:
        raise ValueError(f"memories: expected one memory, got {len(memories)}")
    return memories[0]


def summary(memory: Memory) -> Summary:
    """What the encoder made of the whole source; ValueError where it made nothing."""
    if memory.summary is None:
        raise ValueError(
            "a summary of the source is needed, and this encoder gives none: use another encoder, "
            "or another bridge or pool"
        )
    return memory.summary


@runtime_checkable
class Selector(Protocol):
    """Takes vectors of every source position out of what an encoder computed."""

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]: ...


class SelectedLayers:
    """These layers, side by side: 0 is the embeddings, -1 the highest."""

    def __init__(self, *layers: int) -> None:
        self.layers = layers

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        return torch.cat([encoded.layers[layer] for layer in self.layers], dim=-1)


class WithNeighbours:
    """Those of the positions before and after beside each one's own; zeros where there are none."""

    def __init__(self, pick: Selector, reach: int) -> None:
        self.pick = pick
        self.reach = reach

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        states = self.pick(encoded) * encoded.mask[..., None]
        length = states.size(1)
        wide = nn.functional.pad(states, (0, 0, self.reach, self.reach))
        shifts = range(2 * self.reach + 1)
        return torch.cat([wide[:, shift : shift + length] for shift in shifts], dim=-1)


class WithPositions:
    """With waves added that tell where each stands."""

    def __init__(self, pick: Selector) -> None:
        self.pick = pick
        self.positions = Sinusoidal()

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        states = self.pick(encoded)
        return self.positions.add(states, range(states.size(1)))


class KeysAndValues:
    """A memory of these keys and these values."""

    def __init__(self, keys: Selector, values: Selector) -> None:
        self.keys = keys
        self.values = values

    def __call__(self, encoded: Encoded) -> tuple[Memory, ...]:
        keys, values = self.keys(encoded), self.values(encoded)
        return (Memory(keys, values, encoded.mask, encoded.summary),)


class WithExtraVectors(nn.Module):
    """What another remembers, and a memory of vectors that are the same for every source: learned
    ones, or given ones that stay as they are. They are keys and values."""

    def __init__(self, remember: BuildMemory, vectors: Tensor, *, learned: bool) -> None:
        """`vectors` has a row for each."""
        super().__init__()
        self.remember = remember
        if learned:
            self.vectors = nn.Parameter(vectors)
        else:
            self.register_buffer("vectors", vectors)

    def forward(self, encoded: Encoded) -> tuple[Memory, ...]:
        batch = encoded.mask.size(0)
        vectors = self.vectors.expand(batch, *self.vectors.shape)
        mask = encoded.mask.new_ones(batch, len(self.vectors))
        return (*self.remember(encoded), Memory(vectors, vectors, mask))
