"""Embeddings of tokens or numbers, with their positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.positions import Positions
from regard.shapes import Float, Int, Tensor


class Embedder(nn.Module):
    """Embeddings of tokens or numbers, with positions added (Vaswani et al. 2017, sections 3.4 and
    3.5). Embeddings are multiplied by sqrt(size), so one matrix can serve as embeddings and as
    output projection."""

    def __init__(
        self, embedding: nn.Embedding | nn.Linear, positions: Positions, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(
        self,
        inputs: Int[Tensor, "batch position"] | Float[Tensor, "batch position _"],
        positions: range,
    ) -> Float[Tensor, "batch position size"]:
        embedded = self.embedding(inputs)
        scaled = math.sqrt(embedded.size(-1)) * embedded
        return self.dropout(self.positions.add(scaled, positions))

    def rotation(self, positions: range) -> Callable[[Tensor], Tensor]:
        """Return the rotation of queries and keys at these positions."""
        return partial(self.positions.rotate, positions=positions)
