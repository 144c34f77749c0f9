"""Products of matrices on a CPU, for code that has its gradients by hand.

torch asks MKL for them, which takes AVX-512 on Intel's CPUs alone: on others oneDNN, which torch
brings too, takes half the time. Small products, other devices and float64 are left to torch.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from regard.shapes import Float, Tensor

WORTH_A_CALL = 1 << 20
"""Multiplications in one product from which oneDNN is asked."""

LARGE = 1 << 22
"""The same for one of many, which torch takes at once and oneDNN one by one."""

ROWS = 256
"""Rows of a large product that are formed at a time, at most: of so many oneDNN takes a copy."""

_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def linear(
    inputs: Float[Tensor, "row inner"],
    weight: Float[Tensor, "column inner"],
    bias: Float[Tensor, "column"] | None = None,
) -> Float[Tensor, "row column"]:
    """inputs @ weight.T + bias."""
    if _LINEAR is None or len(inputs) * weight.numel() < WORTH_A_CALL or not _suits(inputs):
        return F.linear(inputs, weight, bias)
    return _LINEAR(inputs, _dense(weight), bias, "none", [], "")


def multiply(
    left: Float[Tensor, "batch row inner"], right: Float[Tensor, "batch inner column"]
) -> Float[Tensor, "batch row column"]:
    """left @ right, matrix by matrix."""
    num_rows, num_inner = left.shape[1:]
    num_columns = right.size(2)
    if _LINEAR is None or num_rows * num_inner * num_columns < LARGE or not _suits(left):
        return torch.bmm(left, right)
    product = left.new_empty(len(left), num_rows, num_columns)
    parts = -(-num_rows // ROWS)
    for found, rows, matrix in zip(product, left, right.mT, strict=True):
        columns = _dense(matrix)
        for place, part in zip(found.chunk(parts), rows.chunk(parts), strict=True):
            place.copy_(_LINEAR(part, columns, None, "none", [], ""))
    return product


def _dense(matrix: Tensor) -> Tensor:
    """A part of the columns of another takes oneDNN a thousand times longer."""
    if matrix.is_contiguous() or matrix.T.is_contiguous():
        return matrix
    return matrix.contiguous()


def _suits(matrices: Tensor) -> bool:
    return matrices.is_cpu and matrices.dtype == torch.float32
