"""Additive attention by its formula, in operations of PyTorch only: for exports and `torch.func`.

It can be differentiated any number of times, and forms a tensor of batch x target x source x size.
"""

from __future__ import annotations

import torch

from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.compiled.attention.fused_additive.tiles import visible_only
from regard.numerics.precision import precise_type
from regard.shapes import Float, Tensor


def attend(
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Float[Tensor, "batch target value"], Float[Tensor, "batch target source"]]:
    """Return contexts, and weights before dropout. A query that may attend to nothing gets
    zeros."""
    keys, values, mask = memory.keys, memory.values, memory.mask
    if mask is not None:
        keys, values = visible_only(keys, mask), visible_only(values, mask)
    scores = memory.scale * score(queries, keys, memory.vector)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        hidden = scores.new_zeros(()).masked_fill(mask.any(dim=-1, keepdim=True), -torch.inf)
        weights = torch.softmax(torch.where(mask, scores, hidden), dim=-1).masked_fill(~mask, 0)
    mixing = weights if drop is None else weights * drop
    return (mixing @ values.to(weights.dtype)).to(values.dtype), weights


def score(
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "batch target source"]:
    """Return v . tanh(q + k) for every pair, at least in float32."""
    dtype = precise_type(queries.dtype)
    queries, keys, vector = (x.to(dtype) for x in (queries, keys, vector))
    return torch.tanh(queries[:, :, None] + keys[:, None]) @ vector
