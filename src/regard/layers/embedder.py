"""Embeddings of tokens or numbers, with their positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.positions import Positions
from regard.shapes import Float, Int, Tensor


class Embedder(nn.Module):
    """Embeddings of tokens or numbers, with positions added. Embeddings are multiplied by `scale`:
    sqrt(size) in Transformers, so that one matrix can serve as embeddings and as output projection
    (Vaswani et al. 2017, section 3.4), and 1 in ConvS2S (Gehring et al. 2017, section 3.1)."""

    def __init__(
        self,
        embedding: nn.Embedding | nn.Linear,
        positions: Positions,
        dropout: float,
        *,
        scale: float,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(
        self,
        inputs: Int[Tensor, "batch position"] | Float[Tensor, "batch position _"],
        positions: range,
    ) -> Float[Tensor, "batch position size"]:
        """ValueError for inputs on another device: for those on meta, PyTorch would return numbers
        that are not set."""
        device = self.embedding.weight.device
        if inputs.device != device:
            raise ValueError(f"inputs: expected a tensor on {device}, got one on {inputs.device}")
        # Vaswani et al. 2017, section 3.4 if kind is transformer: sqrt(d_model) E w
        embedded = self.scale * self.embedding(inputs)
        return self.dropout(self.positions.add(embedded, positions))

    def rotation(self, positions: range) -> Callable[[Tensor], Tensor]:
        """Return the rotation of queries and keys at these positions."""
        return partial(self.positions.rotate, positions=positions)
