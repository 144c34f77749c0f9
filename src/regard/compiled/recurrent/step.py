"""One step of a recurrent cell with its gradient, given the products of its gates."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard import kernels
from regard.compiled.recurrent.cells import NUM_SAVED, CellBackward, CellStep, gradient_of_state
from regard.compiled.recurrent.native_cells import choose
from regard.layers.recurrent.cells import NUM_GATES, CellState
from regard.names import CellKind
from regard.numerics.precision import precise_type
from regard.shapes import Float, Tensor


def step(
    kind: CellKind,
    input_gates: Float[Tensor, "batch gates"],
    recurrent_gates: Float[Tensor, "batch gates"],
    last: CellState,
) -> CellState:
    """Return the state after a step, given W x + b and U h + c, which have one type. The cell is at
    least float32."""
    dtype = input_gates.dtype
    hidden = kernels.dense(last.hidden.to(dtype))
    cell = None if last.cell is None else kernels.dense(last.cell.to(precise_type(dtype)))
    if torch.is_grad_enabled():
        return CellState(*_Step.apply(input_gates, recurrent_gates, hidden, cell, kind))
    new, _ = _run(kind, input_gates, recurrent_gates, CellState(hidden, cell))
    return new


def _run(
    kind: CellKind, input_gates: Tensor, recurrent_gates: Tensor, last: CellState
) -> tuple[CellState, Tensor]:
    """Return the new state, and numbers for the gradient. The last state is contiguous."""
    hidden, cell = last.hidden, last.cell
    new = CellState(torch.empty_like(hidden), None if cell is None else torch.empty_like(cell))
    saved = input_gates.new_empty(len(hidden), NUM_SAVED[kind] * hidden.size(1))
    choose(hidden).step(kind, CellStep(input_gates, recurrent_gates, last, new, saved))
    return new, saved


class _Step(torch.autograd.Function):
    """`step` of tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        input_gates: Tensor,
        recurrent_gates: Tensor,
        hidden: Tensor,
        cell: Tensor | None,
        kind: CellKind,
    ) -> tuple[Tensor, Tensor | None]:
        new, saved = _run(kind, input_gates, recurrent_gates, CellState(hidden, cell))
        ctx.save_for_backward(hidden, cell, new.hidden, new.cell, saved)
        ctx.kind = kind
        ctx.set_materialize_grads(False)
        return new.hidden, new.cell

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_hidden: Tensor | None, grad_cell: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        hidden, cell, new_hidden, new_cell, saved = ctx.saved_tensors
        kind, precise = ctx.kind, precise_type(saved.dtype)
        carried = gradient_of_state(grad_hidden, hidden, precise)
        carried_cell = None if cell is None else gradient_of_state(grad_cell, cell, precise)
        grad_input = hidden.new_empty(len(hidden), NUM_GATES[kind] * hidden.size(1))
        grad_recurrent = torch.empty_like(grad_input) if kind == "gru" else grad_input
        at = CellBackward(
            grad_output=None,
            grad_recurrent=None,
            grad_carried=carried,
            grad_cell=carried_cell,
            last=CellState(hidden, cell),
            new=CellState(new_hidden, new_cell),
            saved=saved,
            grad_input_gates=grad_input,
            grad_recurrent_gates=grad_recurrent,
        )
        choose(hidden).backward(kind, at)
        # the other cells read the last hidden state by the recurrent gates alone
        grad_last = carried.to(hidden.dtype) if kind == "gru" else None
        return grad_input, grad_recurrent, grad_last, carried_cell, None
