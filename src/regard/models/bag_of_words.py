"""Encoders of single positions, without context: words, or items with numbers."""

from __future__ import annotations

from torch import nn

from regard.data.batch import Items, Numbers, Tokens
from regard.layers.dropout import Dropout
from regard.models.contracts import Encoded


class EmbeddingEncoder(nn.Module):
    """Embeddings without a layer: a bag of words. There is no summary."""

    def __init__(self, embedding: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """Encode a batch. There is no attention, so `need_weights` has no effect."""
        del need_weights
        return Encoded((self.dropout(self.embedding(source.inputs)),), source.mask)


class ItemEncoder(nn.Module):
    """Encoder of items with a name and numbers. The lowest layer is the embedded names, the highest
    the numbers: keys and values from different sources."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, source: Items, *, need_weights: bool = False) -> Encoded:
        """Encode a batch. There is no attention, so `need_weights` has no effect."""
        del need_weights
        return Encoded((self.embedding(source.names.inputs), source.values), source.mask)
