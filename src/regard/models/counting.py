"""Counting letters: a learned query for every letter, and a head that computes all counts in one
call.

With a query q_i for every letter and a memory of one-hot letters x_j:

    k_j = W_k x_j + b_k      v_j = W_v x_j + b_v      one layer for both, or one for each
    c_i = sum over j of softmax_j(q_i . k_j / sqrt(size)) v_j
    y_i = W norm(q_i + c_i) + b                       one class for every possible count

or, with sigmoid weights s and a number as the answer,

    c_i = sum over j of s(q_i . k_j / sqrt(size)) v_j
    y_i = w . c_i                                     one number

The second y_i is a sum over the positions, each of which adds s(q_i . k_j / sqrt(size)) w . v_j. If
this is 1 for the letter i and 0 for the other symbols, the count of a sequence of any length is
right.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.attention import Attention
from regard.models.contracts import AttentionBlock, Encoded, HeadOutput, Memory
from regard.models.memory import single_memory
from regard.shapes import Float, Tensor


class LetterEncoder(nn.Module):
    """Linear layers over one-hot letters. `Encoded.layers` are their outputs in order, and there is
    no summary.

    The mask is True everywhere: a blank is a symbol, not padding. ValueError without a layer."""

    def __init__(self, *linears: nn.Linear) -> None:
        super().__init__()
        if not linears:
            raise ValueError("LetterEncoder needs at least one linear layer, but none came")
        self.linears = nn.ModuleList(linears)

    def forward(
        self, source: Float[Tensor, "batch source symbol"], *, need_weights: bool = False
    ) -> Encoded:
        """Encode a batch. There is no attention, so `need_weights` has no effect."""
        del need_weights
        layers = tuple(linear(source) for linear in self.linears)
        mask = torch.ones(source.shape[:2], dtype=torch.bool, device=source.device)
        return Encoded(layers, mask)


class QueryHead(nn.Module):
    """Head with one learned query for every output.

    Queries are initialised with zeros, so the first weights are uniform. Residual connection and
    layer norm are those of Vaswani et al. 2017, section 3.1. Queries are added to contexts, so the
    values of the memory must have their size."""

    def __init__(self, num_queries: int, size: int, attention: Attention, num_classes: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(num_queries, size))
        self.attention = attention
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, num_classes)

    def forward(self, memories: tuple[Memory, ...], *, need_weights: bool = False) -> HeadOutput:
        """Return logits "batch query class" and, with `need_weights`, the attention of every
        query."""
        context, blocks = _attend(self.queries, self.attention, memories)
        logits = self.output(self.norm(self.queries + context))
        return HeadOutput(logits, blocks if need_weights else ())


class NumberHead(nn.Module):
    """Head with one learned query and one number for every output.

    The number is w . context, without residual connection, layer norm or bias, so it grows with the
    context. A bias would be learned as a part of the count: in sequences of one length it cannot be
    distinguished from a constant that every position adds. The vector w is that of all queries, so
    only attention can distinguish the letters. Queries are initialised with zeros."""

    def __init__(self, num_queries: int, size: int, attention: Attention) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(num_queries, size))
        self.attention = attention
        self.output = nn.Linear(size, 1, bias=False)

    def forward(self, memories: tuple[Memory, ...], *, need_weights: bool = False) -> HeadOutput:
        """Return numbers "batch query" and, with `need_weights`, the attention of every query."""
        context, blocks = _attend(self.queries, self.attention, memories)
        return HeadOutput(self.output(context)[..., 0], blocks if need_weights else ())


def _attend(
    queries: nn.Parameter, attention: Attention, memories: tuple[Memory, ...]
) -> tuple[Float[Tensor, "batch query value"], tuple[AttentionBlock, ...]]:
    """Return the contexts of learned queries, and their attention."""
    memory = single_memory(memories)
    expanded = queries.expand(memory.keys.size(0), -1, -1)
    prepared = attention.prepare(memory.keys)
    # faster without a mask if it is True everywhere, and without the fused kernel: few queries
    mask = None if memory.mask.all() else memory.mask[:, None]
    output = attention(expanded, prepared, memory.values, mask, need_weights=True)
    weights, scores = output.weights[:, None, None], output.scores[:, None, None]
    return output.context, (AttentionBlock("cross", weights, scores),)
