"""Where a token stands, for layers that could not tell otherwise.

    added to the embeddings        Sinusoidal, Learned
    turned into queries and keys   Rotary

`at` says which positions vectors stand at, as a range; a range of one is the place of all of them,
such as that of a step's hypotheses.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.errors import UserError
from regard.shapes import Float, Tensor

LONGEST_WAVE = 10_000
"""In positions, divided by 2 pi."""


@runtime_checkable
class Positions(Protocol):
    """What all of them do, each in one of the two places."""

    def add(
        self, embedded: Float[Tensor, "batch position size"], at: range
    ) -> Float[Tensor, "batch position size"]:
        """To embeddings, below the first layer."""

    def turn(
        self, vectors: Float[Tensor, "*batch position part"], at: range
    ) -> Float[Tensor, "*batch position part"]:
        """To the queries and keys of every head that looks at its own sequence."""


class Sinusoidal(nn.Module):
    """PE(p, 2i) = sin(p / 10000^(2i / size)), PE(p, 2i + 1) = cos of the same (Vaswani et al. 2017,
    section 3.5)."""

    def add(
        self, embedded: Float[Tensor, "batch position size"], at: range
    ) -> Float[Tensor, "batch position size"]:
        waves = _waves(_room(at), embedded.size(-1), embedded.dtype, embedded.device)
        return embedded + waves[at.start : at.stop]

    def turn(
        self, vectors: Float[Tensor, "*batch position part"], at: range
    ) -> Float[Tensor, "*batch position part"]:
        del at
        return vectors


class Learned(nn.Module):
    """A learned vector for every position, up to the longest (Gehring et al. 2017, section 3.1)."""

    def __init__(self, longest: int, size: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(longest, size).normal_(std=size**-0.5))

    def add(
        self, embedded: Float[Tensor, "batch position size"], at: range
    ) -> Float[Tensor, "batch position size"]:
        """UserError where a sequence is longer than the table."""
        if at.stop > len(self.table):
            raise UserError(
                f"a sequence of {at.stop} tokens is longer than the {len(self.table)} "
                "learned positions of this model: cut it into shorter ones, or train with a larger "
                "model.longest or other model.positions"
            )
        return embedded + self.table[at.start : at.stop]

    def turn(
        self, vectors: Float[Tensor, "*batch position part"], at: range
    ) -> Float[Tensor, "*batch position part"]:
        del at
        return vectors


class Rotary(nn.Module):
    """Each pair of numbers, as one complex number, is turned by its position times a frequency, so
    that a product of query and key knows their distance alone (Su et al. 2021, eq. 34)."""

    def add(
        self, embedded: Float[Tensor, "batch position size"], at: range
    ) -> Float[Tensor, "batch position size"]:
        del at
        return embedded

    def turn(
        self, vectors: Float[Tensor, "*batch position part"], at: range
    ) -> Float[Tensor, "*batch position part"]:
        """ValueError where numbers cannot be paired."""
        if vectors.size(-1) % 2:
            raise ValueError(
                f"rotary positions turn pairs of numbers, but vectors of {vectors.size(-1)} came"
            )
        cos, sin = _turns(_room(at), vectors.size(-1), vectors.dtype, vectors.device)
        cos, sin = cos[at.start : at.stop], sin[at.start : at.stop]
        even, odd = vectors.unflatten(-1, (-1, 2)).unbind(-1)
        crossed = torch.stack([-odd, even], dim=-1).flatten(-2)
        return vectors * cos + crossed * sin


def _room(at: range) -> int:
    """As many positions as a table has from which these are read: few sizes, so few tables."""
    return max(64, 1 << (at.stop - 1).bit_length())


@lru_cache(maxsize=8)
def _waves(
    num_positions: int, size: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "position size"]:
    """Sines and cosines in turn."""
    with torch.inference_mode(False):
        angles = _angles(num_positions, size)
        is_even = torch.arange(size, device="cpu") % 2 == 0
        return torch.where(is_even, angles.sin(), angles.cos()).to(dtype).to(device)


@lru_cache(maxsize=8)
def _turns(
    num_positions: int, size: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "position size"], Float[Tensor, "position size"]]:
    """Cosines and sines."""
    with torch.inference_mode(False):
        angles = _angles(num_positions, size)
        return angles.cos().to(dtype).to(device), angles.sin().to(dtype).to(device)


def _angles(num_positions: int, size: int) -> Float[Tensor, "position size"]:
    """p / 10000^(2i / size), the same for the numbers 2i and 2i + 1. In float64: far along, float32
    would be off by more than what tells positions apart. On the CPU: not every device has
    float64."""
    places = torch.arange(num_positions, dtype=torch.float64, device="cpu")
    pairs = torch.arange(size, device="cpu") // 2
    return places[:, None] * LONGEST_WAVE ** (-2 * pairs.double() / size)
