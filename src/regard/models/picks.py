"""Keys and values out of all that an encoder computed, for decoders that look elsewhere than at its
highest layer.

    keys    k_j of the embeddings, of a layer, or of several layers side by side
    values  v_j of the same or of others
    around  [k_{j-n}; ..; k_{j+n}]: several time steps side by side, zeros beyond the ends
    placed  k_j + wave_j, which tells keys where they stand
    vectors learned ones or a person's own, as a memory beside the source
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.layers.positions import Sinusoidal
from regard.models.contracts import Encoded, Memory
from regard.models.memory import Remember
from regard.shapes import Float, Tensor


@runtime_checkable
class Pick(Protocol):
    """Takes vectors of every source position out of what an encoder computed."""

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]: ...


class LayersPick:
    """These layers, side by side: 0 is the embeddings, -1 the highest."""

    def __init__(self, *layers: int) -> None:
        self.layers = layers

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        return torch.cat([encoded.layers[layer] for layer in self.layers], dim=-1)


class AroundPick:
    """Those of the positions before and after beside each one's own; zeros where there are none."""

    def __init__(self, pick: Pick, reach: int) -> None:
        self.pick = pick
        self.reach = reach

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        states = self.pick(encoded) * encoded.mask[..., None]
        length = states.size(1)
        wide = nn.functional.pad(states, (0, 0, self.reach, self.reach))
        shifts = range(2 * self.reach + 1)
        return torch.cat([wide[:, shift : shift + length] for shift in shifts], dim=-1)


class PlacedPick:
    """With waves added that tell where each stands."""

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.positions = Sinusoidal()

    def __call__(self, encoded: Encoded) -> Float[Tensor, "batch source _"]:
        states = self.pick(encoded)
        return self.positions.add(states, range(states.size(1)))


class Chosen:
    """A memory of these keys and these values."""

    def __init__(self, keys: Pick, values: Pick) -> None:
        self.keys = keys
        self.values = values

    def __call__(self, encoded: Encoded) -> tuple[Memory, ...]:
        keys, values = self.keys(encoded), self.values(encoded)
        return (Memory(keys, values, encoded.mask, encoded.summary),)


class Beside(nn.Module):
    """What another remembers, and a memory of vectors that are the same for every source: learned
    ones, or given ones that stay as they are. They are keys and values."""

    def __init__(self, remember: Remember, vectors: Tensor, *, learned: bool) -> None:
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
