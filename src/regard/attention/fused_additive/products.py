"""Products of many large matrices on a CPU.

torch.bmm asks MKL, which takes AVX-512 on Intel's CPUs alone: on others oneDNN, which torch brings
too, takes half the time. It has to be called for each matrix, so small ones are left to torch.bmm.
"""

from __future__ import annotations

import torch

from regard.shapes import Float, Tensor

LARGE = 1 << 22
"""Multiplications in one product from which a call of its own is worth while."""

ROWS = 256
"""Rows of a product that are formed at a time, at most: of so many oneDNN takes a copy."""

_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def multiply(
    left: Float[Tensor, "batch row inner"], right: Float[Tensor, "batch inner column"]
) -> Float[Tensor, "batch row column"]:
    """left @ right in float32, without gradients."""
    num_rows, num_inner = left.shape[1:]
    num_columns = right.size(2)
    if _LINEAR is None or num_rows * num_inner * num_columns < LARGE:
        return torch.bmm(left, right)
    product = left.new_empty(len(left), num_rows, num_columns)
    parts = -(-num_rows // ROWS)
    for found, rows, columns in zip(product, left, right.mT, strict=True):
        for place, part in zip(found.chunk(parts), rows.chunk(parts), strict=True):
            place.copy_(_LINEAR(part, columns, None, "none", [], ""))
    return product
