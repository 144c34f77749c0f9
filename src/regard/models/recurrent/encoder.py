"""The recurrent encoder."""

from __future__ import annotations

from torch import nn

from regard.data.batch import Numbers, Tokens
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import Stack
from regard.models.contracts import Encoded, Summary


class RecurrentEncoder(nn.Module):
    """Recurrent layers over tokens or numbers, in one or both directions. The summary is the last
    state of every layer."""

    def __init__(
        self, embedding: nn.Embedding | nn.Linear, stack: Stack, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.stack = stack

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        del need_weights  # recurrent layers attend to nothing
        embedded = self.dropout(self.embedding(source.inputs))
        output = self.stack.encode(embedded, source.mask, source.lengths)
        return Encoded(
            (embedded, *output.outputs),
            source.mask,
            Summary(output.hidden, output.cell),
        )
