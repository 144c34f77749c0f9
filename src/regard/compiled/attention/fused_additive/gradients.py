"""Gradients of additive scores, summed tile by tile.

With g the scores' gradient and u = s (1 - s), a quarter of the slope of tanh:

    grad q_i = 4 v sum_j g_ij u_ij
    grad k_j = 4 v sum_i g_ij u_ij
    grad v   = sum_ij g_ij (1 - 2 s_ij)
"""

from __future__ import annotations

import torch

from regard.compiled.attention.fused_additive.tiles import Chunk, Pairs
from regard.shapes import Float, Tensor

FEW_ROWS = 8
"""Maximum number of rows that are added to the gradient of the keys one by one, which takes fewer
passes over the tile."""


class Gradients:
    """Partial sums of the gradients above, of those that are needed."""

    def __init__(self, pairs: Pairs, *, of_queries: bool = True, of_keys: bool = True) -> None:
        precise = torch.float64 if pairs.device.type == "cpu" else pairs.dtype
        self.queries = pairs.new(*pairs.queries.shape).zero_() if of_queries else None
        self.keys = pairs.new(*pairs.keys.shape).zero_() if of_keys else None
        self.sigmoids = torch.zeros(pairs.size, dtype=precise, device=pairs.device)
        self.total = torch.zeros((), dtype=precise, device=pairs.device)

    def add(self, chunk: Chunk, grad_scores: Float[Tensor, "batch row column"]) -> None:
        """Add the gradients of a chunk. A pass over a tile costs as much as forming it, so passes
        for gradients that are not needed are skipped."""
        grad_queries = None if self.queries is None else self.queries[chunk.batch, chunk.rows]
        grad_keys = None if self.keys is None else self.keys[chunk.batch]
        weighed = grad_scores.new_zeros(self.sigmoids.shape)
        for batch, rows, columns, sigmoids in chunk.tiles():
            shape = sigmoids.shape
            grads = grad_scores[batch, rows, columns]
            if grad_keys is not None:
                weighed.addmv_(sigmoids.flatten(0, 2).T, grads.reshape(-1))
            slopes = torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1, out=sigmoids)
            if grad_queries is not None:
                sums = torch.bmm(grads.flatten(0, 1).unsqueeze(1), slopes.flatten(0, 1))
                grad_queries[batch, rows] += sums.view(*shape[:2], shape[3])
            if grad_keys is None:
                continue
            grad_columns = grad_keys[batch, columns]
            if shape[1] <= FEW_ROWS:
                for slope, grad in zip(slopes.unbind(1), grads.unsqueeze(3).unbind(1), strict=True):
                    grad_columns.addcmul_(slope, grad)
            else:
                grad_columns += slopes.mul_(grads[..., None]).sum(dim=1)
        if grad_keys is not None:
            self.sigmoids += weighed
            self.total += grad_scores.sum()

    def of_queries(
        self, queries: Tensor, vector: Float[Tensor, "size"]
    ) -> Float[Tensor, "batch target size"]:
        """Return the gradient of the queries, in their type. It can be called once."""
        if self.queries is None:
            raise ValueError("the gradient of the queries was not computed")
        return self.queries.mul_(4 * vector.to(self.queries.dtype)).to(queries.dtype)

    def of_keys(
        self, keys: Tensor, vector: Float[Tensor, "size"]
    ) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
        """Return the gradients of keys and vector, in their types. It can be called once."""
        if self.keys is None:
            raise ValueError("the gradient of the keys was not computed")
        grad_keys = self.keys.mul_(4 * vector.to(self.keys.dtype)).to(keys.dtype)
        return grad_keys, (self.total - 2 * self.sigmoids).to(vector.dtype)
