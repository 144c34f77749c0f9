"""The cross entropy of a linear layer's logits, which are never all there at once.

    x = features W^T + b         loss = log sum_v e^{x_v} - (1 - e) x_t - e / V sum_v x_v

The logits of a batch are a row of the whole vocabulary for every word: with their logarithms,
probabilities and gradients they take most of a small model's memory and half of its training time.
Here some words at a time get their logits, which become their gradients in place and then what
those give the features, the weight and the bias; the same few pages of memory serve for all.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard import kernels
from regard.linear import linear, round_rows_up, weight_gradient, working_type
from regard.precise import at_least_float32, precise_type
from regard.shapes import Float, Int, Tensor

LOGITS_AT_A_TIME = 1 << 23
"""How many logits are formed together, at most."""

LOGITS_ON_A_GPU = 1 << 26
"""Logits formed together on a GPU, where few large products are faster than many small ones."""

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
    """The sum over all words of -sum_v label_v log p_v, in nats, where the labels give 1 -
    smoothing to the target and the rest to every word alike (Szegedy et al. 2016, section 7).

    Products are in the type that autocast asks for, the loss at least in float32. First
    derivatives only. ValueError for shapes that do not fit, and for targets on a CPU that are no
    words."""
    _check(features, weight, bias, targets)
    targets, size = targets.long(), weight.size(0)
    if targets.is_cpu and len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < size:
        raise ValueError(
            f"targets must be from 0 to {size - 1}, but {int(targets.min())} to "
            f"{int(targets.max())} came"
        )
    dtype = working_type(features)
    learns = torch.is_grad_enabled()
    found: Tensor = _LinearCrossEntropy.apply(
        features.to(dtype), weight, bias, targets.contiguous(), smoothing, learns
    )
    return found


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
    """The gradients are taken on the way there, while the logits are at hand, if anything `learns`:
    `needs_input_grad` holds where gradients are off too."""

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
        wanted = [learns and needed for needed in ctx.needs_input_grad[:3]]
        of_features, of_weight, of_bias = wanted
        grads: list[Tensor | None] = [
            torch.empty_like(features) if of_features else None,
            torch.zeros_like(weight) if of_weight else None,
            torch.zeros_like(bias) if bias is not None and of_bias else None,
        ]
        matrix, shift = weight.to(dtype), None if bias is None else bias.to(dtype)
        precise = precise_type(dtype)
        loss = torch.zeros((), dtype=_of_sums(features.device), device=features.device)
        most = LOGITS_AT_A_TIME if features.is_cpu else LOGITS_ON_A_GPU
        rows = max(1, most // weight.size(0) // WORDS) * WORDS
        for first in range(0, len(features), rows):
            part = slice(first, first + rows)
            words = features[part]
            num_words = len(words)
            words = F.pad(words, (0, 0, 0, round_rows_up(num_words, WORDS) - num_words))
            logits = linear(words, matrix, shift)
            real = logits[:num_words]
            loss += _entropy(real, targets[part], smoothing, gradients=any(wanted))
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
    """The sum of the losses; the logits become their gradients where those are wanted."""
    find = _native if kernels.suit(logits) else _plain
    return find(logits, targets, smoothing, gradients)


def _plain(logits: Tensor, targets: Tensor, smoothing: float, gradients: bool) -> Tensor:
    precise = at_least_float32(logits)
    logs, even = precise.log_softmax(dim=1), smoothing / logits.size(1)
    losses = -(1 - smoothing) * logs.gather(1, targets[:, None])
    if smoothing:
        losses = losses - even * logs.sum(dim=1, keepdim=True)
    if gradients:
        shares = logs.exp_().sub_(even)
        shares[torch.arange(len(targets), device=targets.device), targets] -= 1 - smoothing
        logits.copy_(shares)
    return losses.sum(dtype=_of_sums(losses.device))


def _of_sums(device: torch.device) -> torch.dtype:
    """The type of sums over many words: double precision, if the device has it."""
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
