"""Log probabilities of targets under the logits of a linear layer, without all logits in memory.

Logits are computed for some words at a time, and again for the gradient: with W the weight,
d log p(t) / d logits = onehot(t) - p. Unlike `linear_cross_entropy`, the result has one number for
each word, which any function may weigh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.compiled.losses.linear_cross_entropy import LOGITS_AT_A_TIME, is_linear, words_at_a_time
from regard.numerics.linear import linear, weight_gradient, working_type
from regard.numerics.precision import at_least_float32
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Int, Tensor
from regard.training.losses import logits as formula


def log_probabilities(
    features: Float[Tensor, "word feature"],
    projection: nn.Module,
    targets: Int[Tensor, "word"],
) -> Float[Tensor, "word"]:
    """Return the log probability of each target, in float32 or float64, with gradients."""
    if needs_formula() or not is_linear(projection):
        return formula.log_probabilities(features, projection, targets)
    dtype = working_type(features)
    values: Tensor = _LogProbabilities.apply(
        features.to(dtype), projection.weight, projection.bias, targets
    )
    return values


class _LogProbabilities(torch.autograd.Function):
    """Log probabilities whose gradient computes the logits again."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        ctx.save_for_backward(features, weight, bias, targets)
        values = [
            logs.gather(1, targets[part, None])[:, 0]
            for part, logs in _blocks(features, weight, bias)
        ]
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias, targets = ctx.saved_tensors
        of_features, of_weight, of_bias = ctx.needs_input_grad[:3]
        grad_features = torch.empty_like(features) if of_features else None
        grad_weight = torch.zeros_like(weight) if of_weight else None
        grad_bias = torch.zeros_like(bias) if of_bias else None
        matrix = weight.to(features.dtype)
        for part, logs in _blocks(features, weight, bias):
            scale = above[part, None]
            slopes = logs.exp_().mul_(-scale)
            slopes.scatter_add_(1, targets[part, None], scale.to(slopes.dtype))
            slopes = slopes.to(features.dtype)
            if grad_features is not None:
                grad_features[part] = linear(slopes, matrix.T)
            if grad_weight is not None:
                grad_weight += weight_gradient(slopes, features[part])
            if grad_bias is not None:
                grad_bias += slopes.sum(dim=0)
        return grad_features, grad_weight, grad_bias, None


def _blocks(
    features: Tensor, weight: Tensor, bias: Tensor | None
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the log probabilities of all words of the vocabulary, for some features at a time."""
    dtype = features.dtype
    matrix, shift = weight.to(dtype), None if bias is None else bias.to(dtype)
    rows = words_at_a_time(weight.size(0), LOGITS_AT_A_TIME, features.device)
    for first in range(0, max(len(features), 1), rows):
        part = slice(first, min(first + rows, len(features)))
        yield part, at_least_float32(linear(features[part], matrix, shift)).log_softmax(dim=1)
