"""The recurrent encoder."""

from __future__ import annotations

from torch import nn

from regard.data.batch import Numbers, Tokens
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import Stack
from regard.models.contracts import Encoded, Summary
from regard.models.experts import blocks_of_gates, measures_of_load, penalties_of_balance


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
        """Encode a batch. With `need_weights`, return the gate values of experts, if there are
        any."""
        embedded = self.dropout(self.embedding(source.inputs))
        output = self.stack.encode(embedded, source.mask, source.lengths)
        routings = [output.routing]
        return Encoded(
            (embedded, *output.outputs),
            source.mask,
            Summary(output.hidden, output.cell),
            attention=blocks_of_gates("encoder_experts", routings) if need_weights else (),
            penalties=penalties_of_balance(routings),
            measures=measures_of_load("encoder_load", routings),
        )
