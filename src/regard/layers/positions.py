"""Position encodings, as attention itself does not depend on the order of tokens.

    added to the embeddings        Sinusoidal, Learned
    rotating queries and keys      Rotary

`positions` is the range of the vectors' positions. A range of one position applies to all vectors,
such as those of the hypotheses in a step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.errors import UserError
from regard.shapes import Float, Tensor

LONGEST_WAVE = 10_000
"""Wavelength of the slowest wave, in positions, divided by 2 pi."""


@runtime_checkable
class Positions(Protocol):
    """Position encoding. Each encoding changes either embeddings or queries and keys."""

    def add(
        self, embedded: Float[Tensor, "batch position size"], positions: range
    ) -> Float[Tensor, "batch position size"]:
        """Return the embeddings with positions added, below the first layer."""

    def rotate(
        self, vectors: Float[Tensor, "*batch position part"], positions: range
    ) -> Float[Tensor, "*batch position part"]:
        """Return the queries or keys of self-attention heads, rotated by their positions."""


class Sinusoidal(nn.Module):
    """PE(p, 2i) = sin(p / 10000^(2i / size)) and PE(p, 2i + 1) = cos(p / 10000^(2i / size))
    (Vaswani et al. 2017, section 3.5)."""

    def add(
        self, embedded: Float[Tensor, "batch position size"], positions: range
    ) -> Float[Tensor, "batch position size"]:
        waves = _waves(_table_length(positions), embedded.size(-1), embedded.dtype, embedded.device)
        return embedded + waves[positions.start : positions.stop]

    def rotate(
        self, vectors: Float[Tensor, "*batch position part"], positions: range
    ) -> Float[Tensor, "*batch position part"]:
        del positions
        return vectors


class Learned(nn.Module):
    """One learned vector for every position up to `longest` (Gehring et al. 2017, section 3.1)."""

    def __init__(self, longest: int, size: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(longest, size).normal_(std=size**-0.5))

    def add(
        self, embedded: Float[Tensor, "batch position size"], positions: range
    ) -> Float[Tensor, "batch position size"]:
        """Return the embeddings with positions added. UserError for a longer sequence than the
        table."""
        if positions.stop > len(self.table):
            raise UserError(
                f"a sequence of {positions.stop} tokens is longer than the {len(self.table)} "
                "learned positions of this model: cut it into shorter ones, or train with larger "
                "max_positions or other positions"
            )
        # Gehring et al. 2017, section 3.1: e_j = w_j + p_j
        return embedded + self.table[positions.start : positions.stop]

    def rotate(
        self, vectors: Float[Tensor, "*batch position part"], positions: range
    ) -> Float[Tensor, "*batch position part"]:
        del positions
        return vectors


class Rotary(nn.Module):
    """Rotation of each pair of numbers by the position times a frequency (Su et al. 2021, eq. 34).
    The product of a query and a key then depends on their distance only."""

    def add(
        self, embedded: Float[Tensor, "batch position size"], positions: range
    ) -> Float[Tensor, "batch position size"]:
        del positions
        return embedded

    def rotate(
        self, vectors: Float[Tensor, "*batch position part"], positions: range
    ) -> Float[Tensor, "*batch position part"]:
        """Return the rotated vectors. ValueError for vectors of an odd size."""
        if vectors.size(-1) % 2:
            raise ValueError(
                f"vectors: rotary positions expected an even size, got {vectors.size(-1)}"
            )
        cos, sin = self.cosines_and_sines(positions, vectors)
        even, odd = vectors.unflatten(-1, (-1, 2)).unbind(-1)
        crossed = torch.stack([-odd, even], dim=-1).flatten(-2)
        # Su et al. 2021, eq. 34: R_m x = x cos(m theta) + (-x_2, x_1, -x_4, x_3, ..) sin(m theta)
        return vectors * cos + crossed * sin

    def cosines_and_sines(
        self, positions: range, like: Float[Tensor, "*batch position part"]
    ) -> tuple[Float[Tensor, "row part"], Float[Tensor, "row part"]]:
        """Return the cosine and the sine of the angle of each number at these positions, for
        vectors of this size, type and device."""
        length = _table_length(positions)
        cos, sin = _rotations(length, like.size(-1), like.dtype, like.device)
        return cos[positions.start : positions.stop], sin[positions.start : positions.stop]


def _table_length(positions: range) -> int:
    """Return the length of the table of these positions: a power of two, so there are few
    tables."""
    return max(64, 1 << (positions.stop - 1).bit_length())


@lru_cache(maxsize=8)
def _waves(
    num_positions: int, size: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "position size"]:
    """Return sines at even indices and cosines at odd ones."""
    with torch.inference_mode(False):
        angles = _angles(num_positions, size)
        is_even = torch.arange(size, device="cpu") % 2 == 0
        # Vaswani et al. 2017, section 3.5:
        #     PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i + 1) = cos(p / 10000^(2i/d))
        return torch.where(is_even, angles.sin(), angles.cos()).to(dtype).to(device)


@lru_cache(maxsize=8)
def _rotations(
    num_positions: int, size: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "position size"], Float[Tensor, "position size"]]:
    """Return cosines and sines."""
    with torch.inference_mode(False):
        angles = _angles(num_positions, size)
        return angles.cos().to(dtype).to(device), angles.sin().to(dtype).to(device)


def _angles(num_positions: int, size: int) -> Float[Tensor, "position size"]:
    """Return p / 10000^(2i / size) for the numbers 2i and 2i + 1.

    In float64, as rounding of large angles in float32 exceeds the difference between positions. On
    the CPU, as some devices lack float64."""
    positions = torch.arange(num_positions, dtype=torch.float64, device="cpu")
    pairs = torch.arange(size, device="cpu") // 2
    return positions[:, None] * LONGEST_WAVE ** (-2 * pairs.double() / size)
