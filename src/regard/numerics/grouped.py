"""Products of rows with a matrix for each group of rows, such as those of each expert."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.numerics.linear import working_type
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Int, Tensor

ALIGNMENT = 16
"""Bytes that divide each row of a matrix in PyTorch's grouped product."""


def grouped_product(
    rows: Float[Tensor, "row inner"],
    weights: Float[Tensor, "expert inner column"],
    ends: Int[Tensor, "expert"],
) -> Float[Tensor, "row column"]:
    """Return the product of each row with the matrix of its expert, with gradients, in autocast's
    type. Rows are sorted by expert; `ends` are the numbers of rows up to and with each expert.
    ValueError unless they rise to the number of rows."""
    dtype = working_type(rows)
    rows, weights = rows.to(dtype), weights.to(dtype)
    if needs_formula() or not _is_supported(weights):
        return _by_expert(rows, weights, ends)
    _check_ends(ends, len(rows), len(weights))
    product: Tensor = _GroupedProduct.apply(rows, weights, ends.to(torch.int32))
    return product


def _check_ends(ends: Tensor, num_rows: int, num_experts: int) -> None:
    """Check the ends of the experts' rows, which PyTorch's grouped product reads unchecked."""
    sizes = ends.diff(prepend=ends.new_zeros(1))
    is_whole = not ends.is_floating_point() and ends.shape == (num_experts,)
    if not (is_whole and int(ends[-1]) == num_rows and bool((sizes >= 0).all())):
        raise ValueError(
            f"ends: expected {num_experts} whole numbers that rise to {num_rows}, the number of "
            f"rows, got {ends.tolist()}"
        )


class _GroupedProduct(torch.autograd.Function):
    """PyTorch's grouped product. Its own gradients reject tensors that are not contiguous."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        rows = _in_rows(rows)
        ctx.save_for_backward(rows, weights, ends)
        return F.grouped_mm(rows, weights, offs=ends)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        rows, weights, ends = ctx.saved_tensors
        grad_output = _in_rows(grad_output)
        needs_rows, needs_weights, _ = ctx.needs_input_grad
        return (
            F.grouped_mm(grad_output, weights.mT, offs=ends) if needs_rows else None,
            F.grouped_mm(rows.mT, grad_output, offs=ends) if needs_weights else None,
            None,
        )


def _in_rows(matrix: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """Return the matrix with the strides of contiguous rows, which PyTorch's grouped product needs
    even if there is at most one row. `contiguous` leaves such a matrix unchanged."""
    if len(matrix) > 1:
        return matrix.contiguous()
    return matrix.clone(memory_format=torch.contiguous_format)


def _by_expert(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Return the grouped product with one matrix product for each expert, for types and sizes that
    PyTorch's grouped product lacks."""
    sizes = ends.diff(prepend=ends.new_zeros(1)).tolist()
    parts = zip(rows.split(sizes), weights, strict=True)
    return torch.cat([part @ weight for part, weight in parts])


def _is_supported(weights: Float[Tensor, "expert inner column"]) -> bool:
    """Whether PyTorch computes grouped products with these matrices and their gradients."""
    bytes_in_row = (size * weights.element_size() for size in weights.shape[1:])
    return (
        weights.is_cpu
        and weights.dtype in (torch.float32, torch.bfloat16)
        and all(size % ALIGNMENT == 0 for size in bytes_in_row)
    )
