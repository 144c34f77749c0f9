"""Dropout by a kernel. The backward pass draws the noise again from its seed, so that it need not
be stored."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard import kernels
from regard.compiled.exact import Accelerated
from regard.layers import dropout as formula
from regard.shapes import Float, Tensor


class Dropout(Accelerated, formula.Dropout):
    """`Dropout` on a CPU: there PyTorch takes longer to draw noise than to compute most layers."""

    def forward(self, numbers: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        if not self.training or self.p == 0:
            return numbers
        if self.p >= 1 or self.inplace or not kernels.suit(numbers):
            return super().forward(numbers)
        dropped: Tensor = _Drop.apply(numbers, 1 - self.p, kernels.new_seed())
        return dropped


@kernels.structure("Dropping")
class _Dropping(ctypes.Structure):
    """`Dropping` of regard/kernels/kernels.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("count", "is_bfloat16", "threads")),
        *((name, ctypes.c_void_p) for name in ("numbers", "to")),
        ("seed", ctypes.c_uint64),
        ("keep", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 2),
    ]


class _Drop(torch.autograd.Function):
    """Numbers times 0 or 1 / keep, with gradients."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, keep: float, seed: int) -> Tensor:
        ctx.keep, ctx.seed = keep, seed
        return _drop(numbers, keep, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        return _drop(grad_output, ctx.keep, ctx.seed), None, None


def _drop(numbers: Tensor, keep: float, seed: int) -> Tensor:
    numbers = kernels.dense(numbers)
    dropped = torch.empty_like(numbers)
    problem = _Dropping(
        numbers.numel(),
        numbers.dtype == torch.bfloat16,
        torch.get_num_threads(),
        kernels.place(numbers),
        kernels.place(dropped),
        seed,
        keep,
        kernels.all_bytes(numbers, dropped),
    )
    kernels.call("drop", problem)
    return dropped


TWINS = {formula.Dropout: Dropout}
