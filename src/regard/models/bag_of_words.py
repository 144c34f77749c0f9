"""Encoders that read every position by itself: words alone, or items with numbers of their own."""

from __future__ import annotations

from torch import nn

from regard.data.batch import Items, Numbers, Tokens
from regard.layers.dropout import Dropout
from regard.models.contracts import Encoded


class EmbeddingEncoder(nn.Module):
    """Embeddings and nothing else: a bag of words. There is no summary."""

    def __init__(self, embedding: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """Positions do not look at each other, so weights that are asked for are none."""
        del need_weights
        return Encoded((self.dropout(self.embedding(source.inputs)),), source.mask)


class ItemEncoder(nn.Module):
    """The lowest layer is the items' names, embedded; the highest their numbers as they came: keys
    and values from different places."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, source: Items, *, need_weights: bool = False) -> Encoded:
        """Items do not look at each other, so weights that are asked for are none."""
        del need_weights
        return Encoded((self.embedding(source.names.inputs), source.values), source.mask)
