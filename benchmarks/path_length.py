"""Measure the length of the path between two positions of a source, in an encoder.

The length is the number of operations that carry a signal from one position to the other (Vaswani
et al. 2017, section 4): layers of self-attention or convolution, or steps of a recurrence.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batch import Tokens
from regard.data.special_tokens import SPECIAL


@dataclass(frozen=True)
class PathLength:
    """Length of the path between the two positions of a sentence that need the most operations,
    among those that the encoder connects."""

    operations: int
    max_distance: int
    """Largest distance between two positions that the encoder connects, in both directions."""
    length: int
    """Number of positions of the sentence."""

    def __str__(self) -> str:
        if self.max_distance == self.length - 1:
            return str(self.operations)
        return f"{self.operations}, to distance {self.max_distance}"


def measure_path(encoder: nn.Module, length: int, *, is_recurrent: bool) -> PathLength:
    """Return the length of the paths between the positions of a sentence of this length."""
    first_layers = connecting_layers(encoder, length)
    distances = (torch.arange(length)[:, None] - torch.arange(length)).abs()
    operations = distances.double() if is_recurrent else first_layers
    operations = torch.where(first_layers.isinf(), torch.inf, operations)
    operations.fill_diagonal_(0)
    is_connected = operations.isfinite() & operations.T.isfinite()
    connects_all = [bool(is_connected[distances == distance].all()) for distance in range(length)]
    max_distance = connects_all.index(False) - 1 if False in connects_all else length - 1
    return PathLength(int(operations[distances <= max_distance].max()), max_distance, length)


def connecting_layers(encoder: nn.Module, length: int) -> Tensor:
    """Return, for every pair of positions "state embedding", the number of the first layer whose
    state at the one position has a gradient with respect to the embedding at the other; infinity
    without such a layer. ValueError for an encoder without token embeddings."""
    encoder = deepcopy(encoder).double().eval()
    tables = [module for module in encoder.modules() if isinstance(module, nn.Embedding)]
    if not tables:
        raise ValueError("expected an encoder with token embeddings")
    # Every position has a token of its own, so the rows of the gradient are the positions.
    numbers = torch.arange(len(SPECIAL), len(SPECIAL) + length)
    table = nn.Parameter(tables[0].weight.new_empty(len(SPECIAL) + length, tables[0].embedding_dim))
    nn.init.normal_(table, std=tables[0].weight.std().item())
    tables[0].weight = table
    layers = encoder(Tokens(numbers[None], torch.ones(1, length, dtype=torch.bool))).layers
    first = torch.full((length, length), torch.inf, dtype=torch.float64)
    for number, states in reversed([*enumerate(layers)][1:]):
        directions = torch.randn(states.shape[2], dtype=torch.float64)
        for position in range(length):
            output = states[0, position] @ directions
            (gradient,) = torch.autograd.grad(output, table, retain_graph=True)
            is_read = gradient[numbers].ne(0).any(dim=1)
            first[position, is_read] = number
    return first
