"""Exact additive attention at about the cost of dot products.

    context, weights = additive_attention(queries, keys, vector, values, mask)
    scores = additive_scores(queries, keys, vector)

Queries and keys are already projected: score_ij = vector . tanh(query_i + key_j). No tensor of
batch x target x source x size is formed.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from regard.attention.checks import Axes, batch_of, check_mask, check_num_keys, check_scored
from regard.attention.hidden import mix, precise_scores
from regard.attention.normalisers import Softmax
from regard.attention.prepared import AdditiveKeys
from regard.compiled.attention.fused_additive.backends import choose
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.compiled.attention.fused_additive.operator import (
    attend_operator,
    score_operator,
    without_autocast,
)
from regard.numerics.precision import precise_type
from regard.runtime.modes import is_cast, needs_formula
from regard.shapes import Bool, Float, Tensor

__all__ = ["AdditiveKeys", "additive_attention", "additive_scores", "prepare"]


def additive_attention(
    queries: Float[Tensor, "*#batch target size"],
    keys: Float[Tensor, "*#batch source size"] | AdditiveKeys,
    vector: Float[Tensor, "size"],
    values: Float[Tensor, "*#batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | None = None,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*batch target value"], Float[Tensor, "*batch target source"]]:
    """Return contexts, and weights before dropout at least in float32: softmax(scale * score) over
    the visible keys.

    A query that may attend to nothing gets zeros. Numbers at positions that no query may attend to
    have no influence, NaN included. Contexts and weights have gradients, but no second derivatives.
    Batch axes broadcast, so a batch of queries may attend to one source; contexts and weights have
    the batch of all inputs. ValueError for shapes that do not fit, masks that are not bool, and
    tensors on different devices."""
    prepared = keys if isinstance(keys, AdditiveKeys) else AdditiveKeys(keys)
    projected, powers = prepared.projected, prepared.powers
    check_scored(queries, projected, vector, values=values)
    num_queries, num_keys = queries.size(-2), projected.size(-2)
    if values.size(-2) != num_keys:
        check_num_keys(projected, values)
    batch: Axes = queries.shape[:-2]
    is_one_batch = batch == projected.shape[:-2] == values.shape[:-2]
    if not is_one_batch:
        batch = batch_of(queries=queries, keys=projected, values=values)
    if mask is not None:
        check_mask(mask, (*batch, num_queries, num_keys), queries.device)
    if not is_one_batch and _is_one(batch, projected, values):
        if mask is not None:
            mask = mask.expand(*batch, num_queries, num_keys).flatten(0, -2)
        context, weights = additive_attention(
            queries.flatten(0, -2),
            AdditiveKeys(
                projected.flatten(0, -2), None if powers is None else powers.flatten(0, -2)
            ),
            vector,
            values.flatten(0, -2),
            mask,
            scale=scale,
            dropout=dropout,
        )
        return (
            context.view(*batch, num_queries, values.size(-1)),
            weights.view(*batch, num_queries, num_keys),
        )
    if mask is not None:
        mask = _flat_mask(mask, (*batch, num_queries), num_keys)
    if not is_one_batch or len(batch) != 1:
        queries, projected, values = (_flat(x, batch) for x in (queries, projected, values))
        powers = None if powers is None else _flat(powers, batch)
    if queries.dtype != projected.dtype:
        queries, projected = _one_type(queries, projected)
    drop = None
    if dropout:
        drop = queries.new_ones(*queries.shape[:2], num_keys, dtype=precise_type(queries.dtype))
        drop = F.dropout(drop, dropout)
    memory = AdditiveMemory(projected, vector, values, mask, scale, powers)
    context, weights = attend(queries, memory, drop)
    if len(batch) != 1:
        context = context.view(*batch, num_queries, values.size(-1))
        weights = weights.view(*batch, num_queries, num_keys)
    return context, weights


def additive_scores(
    queries: Float[Tensor, "*#batch target size"],
    keys: Float[Tensor, "*#batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "*batch target source"]:
    """Return vector . tanh(query + key) for every pair, at least in float32. Batch axes broadcast.
    ValueError for shapes that do not fit and tensors on different devices."""
    check_scored(queries, keys, vector)
    batch: Axes = queries.shape[:-2]
    is_one_batch = keys.shape[:-2] == batch
    if not is_one_batch:
        batch = batch_of(queries=queries, keys=keys)
    if not is_one_batch and _is_one(batch, keys):
        scores = additive_scores(queries.flatten(0, -2), keys.flatten(0, -2), vector)
        return scores.view(*batch, queries.size(-2), keys.size(-2))
    if not is_one_batch or len(batch) != 1:
        queries, keys = _flat(queries, batch), _flat(keys, batch)
    if queries.dtype != keys.dtype:
        queries, keys = _one_type(queries, keys)
    scores = score(queries, keys, vector)
    if len(batch) == 1:
        return scores
    return scores.view(*batch, queries.size(-2), keys.size(-2))


def prepare(keys: AdditiveKeys) -> AdditiveKeys:
    """Return projected keys, with their powers if gradients are disabled: every step of decoding
    would compute them again."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or needs_formula():
        return keys
    return AdditiveKeys(keys.projected, choose(keys.projected).powers(keys.projected))


def attend(
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Float[Tensor, "batch target value"], Float[Tensor, "batch target source"]]:
    """Return contexts and weights, with gradients of queries, keys, vector and values.

    Without gradients the backend is called directly: a step of decoding takes less time than
    PyTorch's dispatch of an operator. Exports and `torch.func` get the formula."""
    if needs_formula():
        scores = precise_scores(
            lambda keys: score(queries, keys, memory.vector), memory.keys, memory.mask
        )
        weights = Softmax()(memory.scale * scores, memory.mask)
        mixing = weights if drop is None else weights * drop
        return mix(mixing, memory.values, memory.mask), weights
    numbers = queries, memory.keys, memory.vector, memory.values
    if _is_plain_call(*numbers):
        backend = choose(queries, memory.values)
        if is_cast(queries):
            return without_autocast(backend.attend, queries, (queries, memory, drop))
        return backend.attend(queries, memory, drop)
    return attend_operator(*numbers, memory.mask, drop, memory.scale, memory.powers)


def score(
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "batch target source"]:
    """Return scores, with gradients of all arguments."""
    if needs_formula():
        dtype = precise_type(queries.dtype)
        queries, keys = queries.to(dtype)[:, :, None], keys.to(dtype)[:, None]
        return torch.tanh(queries + keys) @ vector.to(dtype)
    arguments = queries, keys, vector
    if _is_plain_call(*arguments):
        return without_autocast(choose(queries).score, queries, arguments)
    return score_operator(*arguments)


def _is_plain_call(*tensors: Tensor) -> bool:
    """Whether neither autograd nor a compiler records the call."""
    if torch.compiler.is_compiling() or type(tensors[0]) is not Tensor:
        return False
    return not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors)


def _is_one(batch: Axes, *sources: Tensor) -> bool:
    """Whether a batch of queries attends to one source. The batch is then computed as one sentence
    with more queries, so keys and values are not repeated."""
    return batch != sources[0].shape[:-2] and all(
        size == 1 for source in sources for size in source.shape[:-2]
    )


def _flat(vectors: Tensor, batch: Axes) -> Tensor:
    """Return vectors expanded to this batch, with one batch axis."""
    if vectors.shape[:-2] != batch:
        vectors = vectors.expand(*batch, *vectors.shape[-2:])
    if len(batch) == 1:
        return vectors
    return vectors.flatten(0, -3) if batch else vectors[None]


def _flat_mask(mask: Tensor, axes: Axes, num_keys: int) -> Tensor:
    """Return the mask with one batch axis, of size 1 if all sentences have one mask, and all
    keys."""
    if mask.dim() == len(axes) + 1 == 3 and mask.size(-1) == num_keys:
        return mask
    mask = mask[(None,) * (2 - mask.dim())]
    rows, leading = mask.size(-2), mask.shape[:-2]
    if all(size == 1 for size in leading):
        return mask.reshape(1, rows, mask.size(-1)).expand(1, rows, num_keys)
    return _flat(mask.expand(*axes[:-1], rows, num_keys), axes[:-1])


def _one_type(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(queries.dtype, keys.dtype)
    return queries.to(dtype), keys.to(dtype)
