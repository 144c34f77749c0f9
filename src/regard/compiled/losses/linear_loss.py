"""Losses of the logits of a linear layer, without all logits in memory at once.

    x = features W^T + b         loss = sum over words of the terms of x

Logits are computed for some words at a time, as in `linear_cross_entropy`. The gradient of the loss
with respect to these logits comes from autograd. It is added to the gradients of features, weight
and bias before the next words, so a small block of memory serves for all words.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.compiled.losses.linear_cross_entropy import (
    WORDS,
    is_linear,
    type_of_sums,
    words_at_a_time,
)
from regard.numerics.linear import linear, round_rows_up, weight_gradient, working_type
from regard.numerics.precision import precise_type
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Tensor
from regard.training.losses import logits as formula
from regard.training.losses.logits import LogitLoss

LOGITS_AT_A_TIME = 1 << 20
"""Largest number of logits that are computed together on a CPU. The block stays in the cache, while
autograd reads it several times."""


def linear_loss(
    features: Float[Tensor, "pass word feature"],
    weight: Float[Tensor, "vocabulary feature"],
    bias: Float[Tensor, "vocabulary"] | None,
    loss: LogitLoss,
) -> tuple[Float[Tensor, ""], Float[Tensor, "term"]]:
    """Return the sum of all terms over all words, with its gradient, and each term without a
    gradient. `features` are those of one or more passes of a model through the same words.

    Products are computed in the type of autocast, sums in float32 or float64. Only first
    derivatives are supported. The loss must not read other tensors that need gradients."""
    dtype = working_type(features)
    learns = torch.is_grad_enabled()
    total: Tensor
    terms: Tensor
    total, terms = _LinearLoss.apply(features.to(dtype), weight, bias, loss, learns)
    return total, terms


def loss_of_logits(
    features: Float[Tensor, "pass word feature"], projection: nn.Module, loss: LogitLoss
) -> tuple[Float[Tensor, ""], Float[Tensor, "term"]]:
    """Return the result of `linear_loss`, or that of the formula for layers that are not plain
    linear ones."""
    if needs_formula() or not is_linear(projection):
        return formula.loss_of_logits(features, projection, loss)
    return linear_loss(features, projection.weight, projection.bias, loss)


class _LinearLoss(torch.autograd.Function):
    """Loss that computes its gradients in the forward pass, while the logits are in memory."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        loss: LogitLoss,
        learns: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = features.dtype
        of_features, of_weight, of_bias = (learns and need for need in ctx.needs_input_grad[:3])
        has_gradients = of_features or of_weight or of_bias
        grads: list[Tensor | None] = [
            torch.empty_like(features) if of_features else None,
            torch.zeros_like(weight) if of_weight else None,
            torch.zeros_like(bias) if bias is not None and of_bias else None,
        ]
        matrix, shift = weight.to(dtype), None if bias is None else bias.to(dtype)
        num_passes, num_words, _ = features.shape
        num_logits = num_passes * weight.size(0)
        rows = words_at_a_time(num_logits, LOGITS_AT_A_TIME, features.device)
        sums = []
        for first in range(0, max(num_words, 1), rows):
            part = slice(first, min(first + rows, num_words))
            words = features[:, part].flatten(0, 1)
            words = F.pad(words, (0, 0, 0, round_rows_up(len(words), WORDS) - len(words)))
            logits = linear(words, matrix, shift)
            num_real = num_passes * (part.stop - first)
            real = logits[:num_real].unflatten(0, (num_passes, -1)).detach()
            with torch.set_grad_enabled(has_gradients):
                values = loss(real.requires_grad_(has_gradients), part)
                sum_of_terms = values.sum()
            sums.append(values.detach().to(type_of_sums(values.device)))
            if not has_gradients:
                continue
            (slopes,) = torch.autograd.grad(sum_of_terms, real)
            slopes = slopes.flatten(0, 1)
            if grads[0] is not None:
                of_words = linear(slopes, matrix.T)
                grads[0][:, part] = of_words.unflatten(0, (num_passes, -1))
            if grads[1] is not None:
                grads[1] += weight_gradient(slopes, words[:num_real])
            if grads[2] is not None:
                grads[2] += slopes.sum(dim=0)
        ctx.save_for_backward(*grads)
        precise = precise_type(dtype)
        terms = torch.stack(sums).sum(dim=0)
        parts = terms.to(precise)
        ctx.mark_non_differentiable(parts)
        return terms.sum().to(precise), parts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grads = (None if g is None else g * above.to(g.dtype) for g in ctx.saved_tensors)
        return *grads, None, None
