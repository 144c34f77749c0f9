"""Readouts answer all their questions at once: no targets, no steps.

Counting letters, with a question q_i for every letter and a memory made of one-hot letters x_j:

    k_j = W_k x_j + b_k      v_j = W_v x_j + b_v      one layer for both, or one for each
    c_i = sum over j of softmax_j(q_i . k_j / sqrt(size)) v_j
    y_i = W norm(q_i + c_i) + b                       as many classes as there can be counts
"""

from __future__ import annotations

import torch
from torch import nn

from regard.attention import Attention
from regard.models.contracts import AttentionBlock, Encoded, HeadOutput, Memory
from regard.models.memory import single_memory
from regard.shapes import Float, Tensor


class LetterEncoder(nn.Module):
    """One-hot letters through one linear layer or several beside each other: `layers` of what it
    encodes are their outputs, in order. There is no summary.

    No mask hides anything: a blank is a symbol, not padding."""

    def __init__(self, *linears: nn.Linear) -> None:
        super().__init__()
        if not linears:
            raise ValueError("LetterEncoder needs at least one linear layer, but none came")
        self.linears = nn.ModuleList(linears)

    def forward(
        self, source: Float[Tensor, "batch source symbol"], *, need_weights: bool = False
    ) -> Encoded:
        """Letters do not attend to each other, so weights that are asked for are none."""
        del need_weights
        layers = tuple(linear(source) for linear in self.linears)
        mask = torch.ones(source.shape[:2], dtype=torch.bool, device=source.device)
        return Encoded(layers, mask)


class QueryHead(nn.Module):
    """One learned query for every answer; queries begin at zero, so first all letters weigh the
    same. Residual connection and layer norm as in Vaswani et al. 2017, 3.1.

    The memory's values must have the queries' size, to be added to them."""

    def __init__(self, num_queries: int, size: int, attention: Attention, num_classes: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(num_queries, size))
        self.attention = attention
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, num_classes)

    def forward(self, memories: tuple[Memory, ...], *, need_weights: bool = False) -> HeadOutput:
        """Logits "batch query class", and what every query looked at where it is asked for."""
        memory = single_memory(memories)
        queries = self.queries.expand(memory.keys.size(0), -1, -1)
        prepared = self.attention.prepare(memory.keys)
        # a mask that hides nothing costs time for nothing; so does the fused kernel for few queries
        mask = None if memory.mask.all() else memory.mask[:, None]
        attended = self.attention(queries, prepared, memory.values, mask, need_weights=True)
        logits = self.output(self.norm(queries + attended.context))
        if not need_weights:
            return HeadOutput(logits)
        weights, scores = attended.weights[:, None, None], attended.scores[:, None, None]
        return HeadOutput(logits, (AttentionBlock("cross", weights, scores),))
