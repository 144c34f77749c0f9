"""Memories: the results of an encoder that become keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention import PreparedKeys
from regard.layers.gradients import scale_gradient
from regard.layers.positions import Sinusoidal
from regard.models.contracts import Encoded, Memory, Summary
from regard.shapes import Bool, Float, Int, Tensor

BuildMemory = Callable[[Encoded], tuple[Memory, ...]]
"""Function from the results of an encoder to the memories of a decoder or head."""


def top_layer(encoded: Encoded) -> tuple[Memory]:
    """Return the states of the highest layer as keys and values (Bahdanau et al. 2015, Luong et al.
    2015, Vaswani et al. 2017)."""
    states = encoded.layers[-1]
    return (Memory(states, states, encoded.mask, encoded.summary),)


def unfolded_columns(encoded: Encoded) -> tuple[Memory]:
    """Return the states beyond the end of the source too, or the highest layer if the encoder has
    none (Kalchbrenner et al. 2016, section 3.2)."""
    return top_layer(encoded) if encoded.unfolded is None else (encoded.unfolded,)


def first_and_last(encoded: Encoded) -> tuple[Memory]:
    """Return the first layer as keys and the last layer as values."""
    return (Memory(encoded.layers[0], encoded.layers[-1], encoded.mask, encoded.summary),)


class OutputPlusEmbeddings(nn.Module):
    """Function that builds the memory of a decoder with attention in every layer (Gehring et al.
    2017, eq. 2): the states z of the highest layer are keys, the sums (z + e) sqrt(1/2) of states
    and embeddings are values. In training, the gradient of z is divided by the number of attentions
    (section 3.4). Values are z alone if states and embeddings have different sizes, as in other
    encoders."""

    def __init__(self, num_attentions: int, *, adds_embeddings: bool) -> None:
        super().__init__()
        self.num_attentions = num_attentions
        self.adds_embeddings = adds_embeddings

    def forward(self, encoded: Encoded) -> tuple[Memory, ...]:
        keys = encoded.layers[-1]
        if self.training:
            keys = scale_gradient(keys, 1 / self.num_attentions)
        values = keys
        if self.adds_embeddings:
            # Gehring et al. 2017, eq. 2: z_j + e_j
            values = (keys + encoded.layers[0]) * math.sqrt(0.5)
        return (Memory(keys, values, encoded.mask, encoded.summary),)


class WithSummary:
    """Function that builds memories of an encoder without a summary: it adds the summary that
    `summarise` computes."""

    def __init__(self, build: BuildMemory, summarise: Callable[[Encoded], Summary]) -> None:
        self.build = build
        self.summarise = summarise

    def __call__(self, encoded: Encoded) -> tuple[Memory, ...]:
        return self.build(replace(encoded, summary=self.summarise(encoded)))


def mean_state(encoded: Encoded) -> Summary:
    """Return the mean of the last layer's states, as the summary of one layer. Zeros for a source
    of nothing but padding.

    Without gradients, positions are added in their order, so padding changes no digit."""
    states, mask = encoded.layers[-1], encoded.mask
    if torch.is_grad_enabled():
        return Summary(masked_mean(states, mask)[:, None])
    positions = states.masked_fill(~mask[..., None], 0).unbind(dim=1)
    total = reduce(torch.add, positions, states.new_zeros(len(states), states.size(-1)))
    return Summary((total / mask.sum(dim=1, keepdim=True).clamp(min=1))[:, None])


def masked_mean(
    vectors: Float[Tensor, "batch source value"], mask: Bool[Tensor, "batch source"]
) -> Float[Tensor, "batch value"]:
    """Return the mean over the positions at which the mask is True; zeros without any."""
    total = vectors.masked_fill(~mask[..., None], 0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def last_position(encoded: Encoded) -> Summary:
    """Return the last layer's state at the last position that is not padding, as the summary of one
    layer. Zeros for a source of nothing but padding."""
    last = encoded.mask.sum(dim=1) - 1
    rows = torch.arange(len(last), device=last.device)
    states = encoded.layers[-1][rows, last.clamp(min=0)]
    return Summary(states.masked_fill((last < 0)[:, None], 0)[:, None])


@dataclass(frozen=True)
class PreparedMemory:
    """Memory of a recurrent decoder with projected keys, one entry a sentence."""

    prepared: PreparedKeys
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch 1 source"]

    def keep(self, sentences: Int[Tensor, "kept"]) -> PreparedMemory:
        return PreparedMemory(
            self.prepared[sentences], self.values[sentences], self.mask[sentences]
        )


def repeat_memory(memory: Memory, rows: Int[Tensor, "row"]) -> Memory:
    """Return the memory of the sources with these numbers, in this order. A number may repeat."""
    keys = memory.keys[rows]
    start = memory.summary
    if start is not None:
        start = Summary(start.hidden[rows], None if start.cell is None else start.cell[rows])
    return Memory(
        keys,
        keys if memory.values is memory.keys else memory.values[rows],
        memory.mask[rows],
        start,
        None if memory.copies is None else memory.copies[rows],
    )


def single_memory(memories: tuple[Memory, ...]) -> Memory:
    """Return the only memory. ValueError for another number of memories."""
    if len(memories) != 1:
        raise ValueError(f"memories: expected one memory, got {len(memories)}")
    return memories[0]


def summary(memory: Memory) -> Summary:
    """Return the summary of a memory. ValueError if the encoder has none."""
    if memory.summary is None:
        raise ValueError(
            "memory: expected a summary of the source, but this encoder has none; use another "
            "encoder, bridge or pooling"
        )
    return memory.summary


@runtime_checkable
class Selector(Protocol):
    """Function from the results of an encoder to one vector for every source position."""

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]: ...


class SelectedLayers:
    """Concatenated states of these layers: 0 is the embeddings, -1 the highest layer."""

    def __init__(self, *layers: int) -> None:
        self.layers = layers

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        return torch.cat([encoded.layers[layer] for layer in self.layers], dim=-1)


class WithNeighbours:
    """Vectors of each position concatenated with those of `context_window` positions on each side.
    Positions outside the source are zeros."""

    def __init__(self, selector: Selector, context_window: int) -> None:
        self.selector = selector
        self.context_window = context_window

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        states = self.selector(encoded) * encoded.mask[..., None]
        length = states.size(1)
        padded = nn.functional.pad(states, (0, 0, self.context_window, self.context_window))
        shifts = range(2 * self.context_window + 1)
        return torch.cat([padded[:, shift : shift + length] for shift in shifts], dim=-1)


class WithPositions:
    """Selected vectors with sinusoidal positions added."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.positions = Sinusoidal()

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        states = self.selector(encoded)
        return self.positions.add(states, range(states.size(1)))


class KeysAndValues:
    """Function that builds a memory from selected keys and selected values."""

    def __init__(self, keys: Selector, values: Selector) -> None:
        self.keys = keys
        self.values = values

    def __call__(self, encoded: Encoded) -> tuple[Memory, ...]:
        keys, values = self.keys(encoded), self.values(encoded)
        return (Memory(keys, values, encoded.mask, encoded.summary),)


class WithExtraVectors(nn.Module):
    """Function that adds a memory of vectors that are the same for every source. The vectors are
    keys and values. They are learned, or fixed."""

    def __init__(self, build_memory: BuildMemory, vectors: Tensor, *, learned: bool) -> None:
        """`vectors` has one row for each vector."""
        super().__init__()
        self.build_memory = build_memory
        if learned:
            self.vectors = nn.Parameter(vectors)
        else:
            self.register_buffer("vectors", vectors)

    def forward(self, encoded: Encoded) -> tuple[Memory, ...]:
        batch = encoded.mask.size(0)
        vectors = self.vectors.expand(batch, *self.vectors.shape)
        mask = encoded.mask.new_ones(batch, len(self.vectors))
        return (*self.build_memory(encoded), Memory(vectors, vectors, mask))
