"""Additive attention at about the price of a dot product, exact.

    context, weights = additive_attention(queries, keys, vector, values, mask)
    scores = additive_scores(queries, keys, vector)

of queries and keys that are already projected: score_ij = vector . tanh(query_i + key_j). No tensor
of batch x target x source x size is ever formed.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from regard.attention.fused_additive import operator
from regard.attention.fused_additive.backends import choose
from regard.attention.fused_additive.prepared import AdditiveKeys
from regard.shapes import Bool, Float, Tensor

__all__ = ["AdditiveKeys", "additive_attention", "additive_scores", "prepare"]


def additive_attention(
    queries: Float[Tensor, "*batch target size"],
    keys: Float[Tensor, "*batch source size"] | AdditiveKeys,
    vector: Float[Tensor, "size"],
    values: Float[Tensor, "*batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | None = None,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*batch target value"], Float[Tensor, "*batch target source"]]:
    """softmax(scale * score) over the visible keys, times the values; and the softmax itself,
    before dropout, at least in float32.

    A query that sees nothing gets zeros. What no query sees may hold anything, NaN too. Gradients
    flow through contexts and weights; there are no second derivatives."""
    prepared = keys if isinstance(keys, AdditiveKeys) else AdditiveKeys(keys)
    axes, num_keys = queries.shape[:-1], prepared.projected.size(-2)
    if mask is not None:
        mask = _flat_mask(mask, axes, num_keys)
    asking, asked = _one_type(_flat(queries), _flat(prepared.projected))
    drop = None
    if dropout:
        drop = F.dropout(
            torch.ones(asking.size(0), asking.size(1), num_keys, device=queries.device), dropout
        )
    context, weights = operator.attend(
        asking,
        asked,
        vector,
        _flat(values),
        mask,
        drop,
        scale,
        None if prepared.powers is None else _flat(prepared.powers),
    )
    if queries.dim() == 3:
        return context, weights
    return context.view(*axes, values.size(-1)), weights.view(*axes, num_keys)


def additive_scores(
    queries: Float[Tensor, "*batch target size"],
    keys: Float[Tensor, "*batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "*batch target source"]:
    """vector . tanh(query + key) for every pair, at least in float32."""
    scores = operator.score(*_one_type(_flat(queries), _flat(keys)), vector)
    return scores if queries.dim() == 3 else scores.view(*queries.shape[:-1], keys.size(-2))


def prepare(projected: Float[Tensor, "*batch source size"]) -> AdditiveKeys:
    """Projected keys, with their exponentials where no gradient is wanted: every step of decoding
    would take them again."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return AdditiveKeys(projected)
    return AdditiveKeys(projected, choose(projected).powers(projected))


def _flat(vectors: Tensor) -> Tensor:
    """One batch axis, whether there were none or many."""
    if vectors.dim() == 3:
        return vectors
    return vectors[None] if vectors.dim() == 2 else vectors.flatten(0, -3)


def _flat_mask(mask: Tensor, axes: torch.Size, num_keys: int) -> Tensor:
    """With one batch axis, where it is not the same for all, and every key."""
    rows = mask.size(-2)
    leading = mask.shape[:-2]
    if all(size == 1 for size in leading):
        return mask.reshape(1, rows, -1).expand(1, rows, num_keys)
    return _flat(mask.expand(*axes[:-1], rows, num_keys))


def _one_type(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    if queries.dtype == keys.dtype:
        return queries, keys
    dtype = torch.promote_types(queries.dtype, keys.dtype)
    return queries.to(dtype), keys.to(dtype)
