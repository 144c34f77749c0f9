"""Cross entropy of the logits of a linear layer, without all logits in memory at once.

    x = features W^T + b         loss = log sum_v e^{x_v} - (1 - e) x_t - e / V sum_v x_v

The logits of a batch have one row of the size of the vocabulary for every word. With their
logarithms, probabilities and gradients they take most of the memory of a small model and half of
its training time. Here logits are computed for some words at a time. Their gradients replace them
in place and are added to the gradients of features, weight and bias, so a small block of memory
serves for all words.
"""

from __future__ import annotations

import ctypes
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard import kernels
from regard.compiled.exact import is_exactly
from regard.numerics.linear import Linear, linear, round_rows_up, weight_gradient, working_type
from regard.numerics.precision import at_least_float32, precise_type
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Int, Tensor
from regard.training.losses import logits as formula

LOGITS_AT_A_TIME = 1 << 23
"""Largest number of logits that are computed together."""

LOGITS_ON_A_GPU = 1 << 26
"""Largest number on a GPU, where few large products are faster than many small ones."""

WORDS = 64
"""Logits are computed for multiples of this number of words (`round_rows_up`). The last part is
padded with zeros."""


def linear_cross_entropy(
    features: Float[Tensor, "word feature"],
    weight: Float[Tensor, "vocabulary feature"],
    bias: Float[Tensor, "vocabulary"] | None,
    targets: Int[Tensor, "word"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the sum over all words of -sum_v label_v log p_v, in nats. A label is 1 - smoothing
    for the target plus smoothing / V for every word (Szegedy et al. 2016, section 7).

    Products are computed in the type of autocast, the loss in float32 or float64. Only first
    derivatives are supported. ValueError for shapes that do not match, and for targets on a CPU
    outside the vocabulary."""
    _check(features, weight, bias, targets)
    targets, size = targets.long(), weight.size(0)
    if targets.is_cpu and len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < size:
        raise ValueError(
            f"targets must be from 0 to {size - 1}, got {int(targets.min())} to "
            f"{int(targets.max())}"
        )
    dtype = working_type(features)
    learns = torch.is_grad_enabled()
    loss: Tensor = _LinearCrossEntropy.apply(
        features.to(dtype), weight, bias, targets.contiguous(), smoothing, learns
    )
    return loss


def cross_entropy(
    features: Float[Tensor, "word feature"],
    projection: nn.Module,
    targets: Int[Tensor, "word"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return `linear_cross_entropy`, or the result of the formula for layers that are not plain
    linear ones."""
    if needs_formula() or not is_linear(projection):
        return formula.cross_entropy(features, projection, targets, smoothing)
    return linear_cross_entropy(features, projection.weight, projection.bias, targets, smoothing)


def is_linear(projection: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a projection is a plain linear layer without hooks."""
    return is_exactly(projection, Linear, nn.Linear)


def _check(features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> None:
    if features.dim() != 2 or weight.dim() != 2 or weight.size(1) != features.size(-1):
        raise ValueError(
            "features and weight: expected (words, features) and (vocabulary, features), got "
            f"{tuple(features.shape)} and {tuple(weight.shape)}"
        )
    if not weight.size(0):
        raise ValueError("weight: expected a row for each word of a vocabulary, got none")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias: expected shape ({len(weight)},), got {tuple(bias.shape)}")
    if targets.shape != features.shape[:1]:
        raise ValueError(
            f"targets: expected one for each of the {len(features)} rows of features, got shape "
            f"{tuple(targets.shape)}"
        )
    if targets.dtype == torch.bool or targets.is_floating_point() or targets.is_complex():
        raise ValueError(f"targets: expected integers, got {targets.dtype}")
    for name, tensor in (("weight", weight), ("bias", bias), ("targets", targets)):
        if tensor is not None and tensor.device != features.device:
            raise ValueError(
                f"{name}: expected a tensor on {features.device} as the features, got one on "
                f"{tensor.device}"
            )


class _LinearCrossEntropy(torch.autograd.Function):
    """Cross entropy that computes its gradients in the forward pass, while the logits are in
    memory. It does so only if `learns`, because `needs_input_grad` is set with gradients disabled
    too."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        learns: bool,
    ) -> Tensor:
        dtype = features.dtype
        needed = [learns and needs for needs in ctx.needs_input_grad[:3]]
        of_features, of_weight, of_bias = needed
        grads: list[Tensor | None] = [
            torch.empty_like(features) if of_features else None,
            torch.zeros_like(weight) if of_weight else None,
            torch.zeros_like(bias) if bias is not None and of_bias else None,
        ]
        matrix, shift = weight.to(dtype), None if bias is None else bias.to(dtype)
        precise = precise_type(dtype)
        loss = torch.zeros((), dtype=type_of_sums(features.device), device=features.device)
        rows = words_at_a_time(weight.size(0), LOGITS_AT_A_TIME, features.device)
        for first in range(0, len(features), rows):
            part = slice(first, first + rows)
            words = features[part]
            num_words = len(words)
            words = F.pad(words, (0, 0, 0, round_rows_up(num_words, WORDS) - num_words))
            logits = linear(words, matrix, shift)
            real = logits[:num_words]
            loss += _entropy(real, targets[part], smoothing, gradients=any(needed))
            logits[num_words:] = 0
            if grads[0] is not None:
                grads[0][part] = linear(logits, matrix.T)[:num_words]
            if grads[1] is not None:
                grads[1] += weight_gradient(logits, words)
            if grads[2] is not None:
                grads[2] += logits.sum(dim=0)
        ctx.save_for_backward(*grads)
        return loss.to(precise)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return (
            *(None if g is None else g * above.to(g.dtype) for g in ctx.saved_tensors),
            None,
            None,
            None,
        )


def _entropy(logits: Tensor, targets: Tensor, smoothing: float, *, gradients: bool) -> Tensor:
    """Return the sum of the losses. With `gradients` the logits are replaced by their gradients."""
    compute = _native if kernels.suit(logits) else _plain
    return compute(logits, targets, smoothing, gradients)


def _plain(logits: Tensor, targets: Tensor, smoothing: float, gradients: bool) -> Tensor:
    precise = at_least_float32(logits)
    logs, even = precise.log_softmax(dim=1), smoothing / logits.size(1)
    losses = -(1 - smoothing) * logs.gather(1, targets[:, None])
    if smoothing:
        losses = losses - even * logs.sum(dim=1, keepdim=True)
    if gradients:
        grads = logs.exp_().sub_(even)
        grads[torch.arange(len(targets), device=targets.device), targets] -= 1 - smoothing
        logits.copy_(grads)
    return losses.sum(dtype=type_of_sums(losses.device))


def words_at_a_time(num_logits: int, max_logits: int, device: torch.device) -> int:
    """Return the number of words whose logits are computed together: a multiple of `WORDS`. A word
    has `num_logits`, and a CPU computes at most `max_logits`."""
    limit = max_logits if device.type == "cpu" else LOGITS_ON_A_GPU
    return max(1, limit // num_logits // WORDS) * WORDS


def type_of_sums(device: torch.device) -> torch.dtype:
    """Return the type of sums over many words: float64, if the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


@kernels.structure("Entropy")
class _Entropy(ctypes.Structure):
    """`Entropy` of regard/kernels/kernels.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "words", "is_bfloat16", "threads")),
        *((name, ctypes.c_void_p) for name in ("logits", "targets", "log_sums", "grads")),
        ("smoothing", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 4),
    ]


def _native(logits: Tensor, targets: Tensor, smoothing: float, gradients: bool) -> Tensor:
    log_sums = logits.new_empty(len(logits), dtype=torch.float32)
    losses = logits.new_empty(len(logits), dtype=torch.float64)
    arrays = logits, targets, log_sums, logits
    problem = _Entropy(
        *logits.shape,
        logits.dtype == torch.bfloat16,
        torch.get_num_threads(),
        *map(kernels.place, arrays),
        smoothing,
        kernels.all_bytes(*arrays),
    )
    kernels.call("cross_entropy", problem, kernels.place(losses), losses.nbytes)
    if gradients:
        kernels.call("cross_entropy_back", problem, 1.0)
    return losses.sum()
