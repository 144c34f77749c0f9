"""The gradients of additive scores, gathered tile by tile.

With g the scores' gradient and u = s (1 - s), a quarter of the slope of tanh:

    grad q_i = 4 v sum_j g_ij u_ij
    grad k_j = 4 v sum_i g_ij u_ij
    grad v   = sum_ij g_ij (1 - 2 s_ij)
"""

from __future__ import annotations

import torch

from regard.attention.fused_additive.tiles import Chunk, Pairs
from regard.shapes import Float, Tensor

FEW_ROWS = 8
"""So many rows are added to the keys' gradient one by one, in fewer passes over the tile."""


class Gradients:
    """What was gathered so far of the sums above; of those that are wanted."""

    def __init__(self, pairs: Pairs, *, of_queries: bool = True, of_keys: bool = True) -> None:
        precise = torch.float64 if pairs.device.type == "cpu" else pairs.dtype
        self.queries = pairs.new(*pairs.queries.shape).zero_() if of_queries else None
        self.keys = pairs.new(*pairs.keys.shape).zero_() if of_keys else None
        self.shares = torch.zeros(pairs.size, dtype=precise, device=pairs.device)
        self.total = torch.zeros((), dtype=precise, device=pairs.device)

    def add(self, chunk: Chunk, grad_scores: Float[Tensor, "batch row column"]) -> None:
        """Walk over a chunk. Every pass over a tile costs as much as forming it, so there is none
        that is not needed."""
        asking = None if self.queries is None else self.queries[chunk.batch, chunk.rows]
        asked = None if self.keys is None else self.keys[chunk.batch]
        weighed = grad_scores.new_zeros(self.shares.shape)
        for batch, rows, columns, shares in chunk.tiles():
            shape = shares.shape
            grads = grad_scores[batch, rows, columns]
            if asked is not None:
                weighed.addmv_(shares.flatten(0, 2).T, grads.reshape(-1))
            slopes = torch.addcmul(shares, shares, shares, value=-1, out=shares)
            if asking is not None:
                sums = torch.bmm(grads.flatten(0, 1).unsqueeze(1), slopes.flatten(0, 1))
                asking[batch, rows] += sums.view(*shape[:2], shape[3])
            if asked is None:
                continue
            place = asked[batch, columns]
            if shape[1] <= FEW_ROWS:
                for slope, grad in zip(slopes.unbind(1), grads.unsqueeze(3).unbind(1), strict=True):
                    place.addcmul_(slope, grad)
            else:
                place += slopes.mul_(grads[..., None]).sum(dim=1)
        if asked is not None:
            self.shares += weighed
            self.total += grad_scores.sum()

    def of_queries(
        self, queries: Tensor, vector: Float[Tensor, "size"]
    ) -> Float[Tensor, "batch target size"]:
        """The gradient in the type of the queries, for the last time."""
        if self.queries is None:
            raise ValueError("the queries' gradient was not gathered")
        return self.queries.mul_(4 * vector.to(self.queries.dtype)).to(queries.dtype)

    def of_keys(
        self, keys: Tensor, vector: Float[Tensor, "size"]
    ) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
        """The gradients of keys and vector in their types, for the last time."""
        if self.keys is None:
            raise ValueError("the keys' gradient was not gathered")
        grad_keys = self.keys.mul_(4 * vector.to(self.keys.dtype)).to(keys.dtype)
        return grad_keys, (self.total - 2 * self.shares).to(vector.dtype)
