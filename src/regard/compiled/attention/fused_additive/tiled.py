"""Additive attention in tiles, in PyTorch: for every device and float type, and the reference of
the kernels.

    score_ij = sum_d v_d tanh(q_id + k_jd) = sum_d v_d - 2 sum_d v_d s_ijd
    s_ijd    = 1 / (1 + e^{2 q_id} e^{2 k_jd})            ds/dq = ds/dk = -2 s (1 - s)

Exponentials are computed once a query and once a key. Each pair then needs one product, one sum and
one division per number, in a buffer that stays in the CPU's cache. The sum of v is the same for
every key, so softmax ignores it.

PyTorch cannot differentiate these functions: each has a function for its gradients.
"""

from __future__ import annotations

import torch

from regard.compiled.attention.fused_additive.gradients import Gradients
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.compiled.attention.fused_additive.mixing import mix, through_mix
from regard.compiled.attention.fused_additive.tiles import Chunk, Pairs, near, power
from regard.numerics.precision import at_least_float32
from regard.shapes import Bool, Float, Tensor


def attend(
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Float[Tensor, "batch target value"], Float[Tensor, "batch target source"]]:
    """Return contexts, and weights before dropout. Both are zero for queries without visible keys.

    `drop` multiplies the weights. NaN at positions that no query may attend to has no influence."""
    pairs = Pairs(queries, memory.keys, memory)
    weights = pairs.new(*pairs.axes)
    for chunk in pairs.chunks():
        _weigh(chunk, memory, weights[chunk.batch, chunk.rows])
    return mix(weights, memory.values, memory.mask, drop), weights


def differentiate(
    grad_context: Float[Tensor, "batch target value"],
    grad_weights: Float[Tensor, "batch target source"] | None,
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
    weights: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys, vector and values. Without `weights` they are computed
    again."""
    pairs = Pairs(queries, memory.keys, memory)
    gradients = Gradients(pairs)
    vector, values = memory.vector, memory.values
    grad_values = pairs.new(*values.shape).zero_()
    for chunk in pairs.chunks():
        place = chunk.batch, chunk.rows
        chunk_weights = pairs.new(*chunk.axes) if weights is None else weights[place]
        if weights is None:
            _weigh(chunk, memory, chunk_weights)
        grad_chunk, of_values = through_mix(
            grad_context[place],
            None if grad_weights is None else grad_weights[place],
            chunk_weights,
            values[chunk.batch],
            None if drop is None else drop[place],
        )
        grad_values[chunk.batch] += of_values
        gradients.add(chunk, through_softmax(grad_chunk, chunk_weights, chunk.mask, memory.scale))
    grad_queries = gradients.of_queries(queries, vector)
    grads_of_keys = gradients.of_keys(memory.keys, vector)
    return grad_queries, *grads_of_keys, grad_values.to(values.dtype)


def powers(keys: Float[Tensor, "*batch source size"]) -> Tensor | None:
    """Return e^{2k} for `attend`. None if a key is out of range, or the device does not use it."""
    if not keys.is_cpu:
        return None
    keys = at_least_float32(keys)
    return power(keys) if near(keys) else None


def score(
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "batch target source"]:
    """Return the scores, with the sum of the vector, which softmax ignores."""
    pairs = Pairs(queries, keys)
    scores = pairs.new(*pairs.axes)
    for chunk in pairs.chunks():
        _score(chunk, vector, scores[chunk.batch, chunk.rows])
    return scores.add_(vector.to(pairs.dtype).sum())


def differentiate_score(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and vector."""
    pairs = Pairs(queries, keys)
    gradients = _gather(Gradients(pairs), pairs, grad_scores)
    return gradients.of_queries(queries, vector), *gradients.of_keys(keys, vector)


def differentiate_queries(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
) -> Float[Tensor, "batch target size"]:
    """Return the gradient of the queries only, which each step of a loop needs at once. Scores of
    hidden pairs must have gradient zero."""
    pairs = Pairs(queries, memory.keys, memory)
    gradients = _gather(Gradients(pairs, of_keys=False), pairs, grad_scores)
    return gradients.of_queries(queries, memory.vector)


def differentiate_keys(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
    """Return the gradients of keys and vector only, which a loop computes at its end. Scores of
    hidden pairs must have gradient zero."""
    pairs = Pairs(queries, memory.keys, memory)
    gradients = _gather(Gradients(pairs, of_queries=False), pairs, grad_scores)
    return gradients.of_keys(memory.keys, memory.vector)


def through_softmax(
    grad_weights: Float[Tensor, "batch target source"],
    weights: Float[Tensor, "batch target source"],
    mask: Bool[Tensor, "#batch #target source"] | None,
    scale: float,
) -> Float[Tensor, "batch target source"]:
    """Return the gradient of the scores, scale * w (g - sum(w g)), written over that of the
    weights."""
    if mask is not None:  # hidden values may be NaN, and zero times NaN is NaN
        grad_weights.masked_fill_(~mask, 0)
    grad_weights.mul_(weights)
    total = grad_weights.sum(dim=-1, keepdim=True)
    return grad_weights.addcmul_(weights, total, value=-1).mul_(scale)


def _gather(gradients: Gradients, pairs: Pairs, grad_scores: Tensor) -> Gradients:
    for chunk in pairs.chunks():
        gradients.add(chunk, grad_scores[chunk.batch, chunk.rows].to(pairs.dtype))
    return gradients


def _score(
    chunk: Chunk, vector: Float[Tensor, "size"], scores: Float[Tensor, "batch row column"]
) -> None:
    """Write the scores without the sum of the vector."""
    weighed = vector.to(scores.dtype).mul(-2)
    for tile in chunk.tiles():
        sums = torch.mv(tile.sigmoids.flatten(0, 2), weighed)
        scores[tile.batch, tile.rows, tile.columns] = sums.view(tile.sigmoids.shape[:3])


def _weigh(
    chunk: Chunk, memory: AdditiveMemory, weights: Float[Tensor, "batch row column"]
) -> None:
    """Write the softmax of the scores."""
    if not weights.numel():
        return
    mask = chunk.mask
    if mask is not None:
        weights.zero_()  # hidden tiles are not computed
    _score(chunk, memory.vector, weights)
    weights.mul_(memory.scale)
    if mask is not None:
        weights.masked_fill_(~mask, -torch.inf)
    highest = weights.amax(dim=-1, keepdim=True).clamp_(min=torch.finfo(weights.dtype).min)
    weights.sub_(highest).exp_()
    weights.div_(weights.sum(dim=-1, keepdim=True).clamp_(min=torch.finfo(weights.dtype).tiny))
