"""Attention in float64 by formulas that PyTorch differentiates, without kernels or own gradients.

The sparse normalisers find their support by bisection and then use a closed formula on it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Score = Callable[[Tensor, Tensor], Tensor]


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries[..., :, None, :] * keys[..., None, :, :]).sum(dim=-1)


def scaled_dot(queries: Tensor, keys: Tensor) -> Tensor:
    return dot(queries, keys) / queries.size(-1) ** 0.5


def cosine(queries: Tensor, keys: Tensor) -> Tensor:
    def norms(vectors: Tensor) -> Tensor:
        return vectors.square().sum(dim=-1).sqrt()

    return dot(queries, keys) / (norms(queries)[..., :, None] * norms(keys)[..., None, :])


def additive(queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """Return the scores of projected queries and keys."""
    return (torch.tanh(queries[..., :, None, :] + keys[..., None, :, :]) * vector).sum(dim=-1)


def softmax(scores: Tensor, mask: Tensor) -> Tensor:
    powers = (scores - scores.detach().amax(dim=-1, keepdim=True)).exp() * mask
    return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-300)


def sparsemax(scores: Tensor, mask: Tensor) -> Tensor:
    support = _support(scores, mask, lambda differences: differences)
    count = support.sum(dim=-1, keepdim=True).clamp(min=1)
    threshold = ((scores * support).sum(dim=-1, keepdim=True) - 1) / count
    return (scores - threshold) * support


def entmax15(scores: Tensor, mask: Tensor) -> Tensor:
    halves = scores / 2
    support = _support(halves, mask, torch.square)
    count = support.sum(dim=-1, keepdim=True).clamp(min=1)
    mean = (halves * support).sum(dim=-1, keepdim=True) / count
    spread = ((halves - mean).square() * support).sum(dim=-1, keepdim=True)
    threshold = mean - ((1 - spread) / count).clamp(min=1e-300).sqrt()
    return (halves - threshold).square() * support


def sigmoid(scores: Tensor, mask: Tensor) -> Tensor:
    return (1 + torch.tanh(scores / 2)) / 2 * mask


def scaled_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return softmax(scores, mask) * mask.sum(dim=-1, keepdim=True)


def _support(numbers: Tensor, mask: Tensor, weigh: Callable[[Tensor], Tensor]) -> Tensor:
    """Return where weigh(max(numbers - tau, 0)) is above zero, for the tau with the sum one."""
    numbers = numbers.detach().masked_fill(~mask, -torch.inf)
    high = numbers.amax(dim=-1, keepdim=True)
    low = high - 1
    for _ in range(200):
        tau = (low + high) / 2
        too_low = weigh((numbers - tau).clamp(min=0)).sum(dim=-1, keepdim=True) > 1
        low, high = torch.where(too_low, tau, low), torch.where(too_low, high, tau)
    return (numbers > high) & mask


NORMALISERS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "sigmoid": sigmoid,
    "scaled_softmax": scaled_softmax,
}


def attend(
    score: Score,
    normalise: Callable[[Tensor, Tensor], Tensor],
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return contexts and weights; positions that no query may attend to are replaced by zeros."""
    visible = mask.any(dim=-2).unsqueeze(-1)
    keys, values = torch.where(visible, keys, 0.25), torch.where(visible, values, 0)
    scores = score(queries, keys)
    weights = normalise(scores, mask.expand(scores.shape))
    return (weights[..., None] * values[..., None, :, :]).sum(dim=-2), weights
