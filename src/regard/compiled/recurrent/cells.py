"""One step of each recurrent cell and its gradient, for loops over positions.

A step starts from the gates' input W x + b and recurrent part U h + c, so callers may compute these
products wherever it is cheapest. Gates lie side by side as in PyTorch's weights. Results are
written to tensors of the records. A row whose mask is False keeps its state.

These are the formulas of `layers/recurrent/cells.py` with their gradients, in PyTorch, for any
device and type. `native_cells` computes the same on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.layers.recurrent.cells import CellState
from regard.names import CellKind
from regard.shapes import Bool, Float, Tensor

NUM_SAVED: dict[CellKind, int] = {"elman": 0, "gru": 4, "lstm": 4}
"""Number of vectors of the hidden size that a step saves for its gradient."""


@dataclass(frozen=True)
class CellStep:
    """Inputs of one step, and the tensors that receive its results: `new` and `saved`."""

    input_gates: Float[Tensor, "batch gates"]
    recurrent_gates: Float[Tensor, "batch gates"]
    last: CellState
    new: CellState
    saved: Float[Tensor, "batch saved"]
    mask: Bool[Tensor, "batch"] | None = None


@dataclass(frozen=True)
class CellBackward:
    """Inputs and results of the gradient of one step.

    The gradient of the new state is the sum of `grad_output`, from outside the layer;
    `grad_recurrent`, through the recurrent gates of the later step; and `grad_carried`, carried
    over from the later state without a matrix product.

    `grad_carried` and `grad_cell` hold the values of the later step and are overwritten with those
    of this step. `grad_input_gates` and `grad_recurrent_gates` receive the gradients of the gates.
    They are one tensor for cells for which both are equal, which are all but the GRU."""

    grad_output: Float[Tensor, "batch hidden"] | None
    grad_recurrent: Float[Tensor, "batch hidden"] | None
    grad_carried: Float[Tensor, "batch hidden"]
    grad_cell: Float[Tensor, "batch hidden"] | None
    last: CellState
    new: CellState
    saved: Float[Tensor, "batch saved"]
    grad_input_gates: Float[Tensor, "batch gates"]
    grad_recurrent_gates: Float[Tensor, "batch gates"]
    mask: Bool[Tensor, "batch"] | None = None


def gradient_of_state(
    gradient: Float[Tensor, "batch hidden"] | None,
    state: Float[Tensor, "batch hidden"],
    dtype: torch.dtype,
) -> Float[Tensor, "batch hidden"]:
    """Return the gradient of a new state, or zeros, in a tensor of its own, for `CellBackward`."""
    if gradient is None:
        return state.new_zeros(state.shape, dtype=dtype)
    return gradient.to(dtype, copy=True).contiguous().resolve_neg()


def step(kind: CellKind, at: CellStep) -> None:
    """Compute the new state from the last one. Write `new` and `saved`."""
    hidden, cell = _STEPS[kind](at)
    if at.mask is not None:
        hidden = torch.where(at.mask[:, None], hidden, at.last.hidden)
    at.new.hidden.copy_(hidden)
    if cell is None:
        return
    if at.mask is not None:
        cell = torch.where(at.mask[:, None], cell, _required(at.last.cell))
    _required(at.new.cell).copy_(cell)


def backward(kind: CellKind, at: CellBackward) -> None:
    """Compute the gradients of the gates and of the last state from that of the new state."""
    hidden = at.grad_carried
    for part in (at.grad_output, at.grad_recurrent):
        hidden = hidden if part is None else hidden + part
    gradients = _BACKWARDS[kind](at, hidden)
    if at.mask is not None:
        real = at.mask[:, None]
        gradients = _StepGradients(
            gradients.input_gates * real,
            gradients.recurrent_gates * real,
            torch.where(real, gradients.carried, hidden),
            None
            if gradients.cell is None
            else torch.where(real, gradients.cell, _required(at.grad_cell)),
        )
    at.grad_input_gates.copy_(gradients.input_gates)
    at.grad_recurrent_gates.copy_(gradients.recurrent_gates)
    at.grad_carried.copy_(gradients.carried)
    if gradients.cell is not None:
        _required(at.grad_cell).copy_(gradients.cell)


@dataclass(frozen=True)
class _StepGradients:
    """Gradients of one step. `carried` is the part of the last hidden state's gradient that does
    not pass through the recurrent gates."""

    input_gates: Tensor
    recurrent_gates: Tensor
    carried: Tensor
    cell: Tensor | None = None


def _step_elman(at: CellStep) -> tuple[Tensor, None]:
    """h' = tanh(a), with a = W x + b + U h + c."""
    return torch.tanh(at.input_gates + at.recurrent_gates), None


def _backward_elman(at: CellBackward, hidden: Tensor) -> _StepGradients:
    before = _through_tanh(hidden, at.new.hidden)
    return _StepGradients(before, before, torch.zeros_like(hidden))


def _step_gru(at: CellStep) -> tuple[Tensor, None]:
    """r, z = sigmoid(a), n = tanh(a_n + r u_n), h' = n + z (h - n), with u the recurrent part."""
    reset_in, update_in, new_in = at.input_gates.chunk(3, dim=-1)
    reset_recurrent, update_recurrent, part = at.recurrent_gates.chunk(3, dim=-1)
    reset = torch.sigmoid(reset_in + reset_recurrent)
    update = torch.sigmoid(update_in + update_recurrent)
    new = torch.tanh(new_in + reset * part)
    torch.cat([reset, update, new, part], dim=-1, out=at.saved)
    return torch.lerp(new, at.last.hidden, update), None


def _backward_gru(at: CellBackward, hidden: Tensor) -> _StepGradients:
    reset, update, new, part = at.saved.to(hidden.dtype).chunk(4, dim=-1)
    carried = hidden * update
    before_new = _through_tanh(hidden - carried, new)
    before_update = _through_sigmoid(hidden * (at.last.hidden - new), update)
    before_reset = _through_sigmoid(before_new * part, reset)
    input_gates = torch.cat([before_reset, before_update, before_new], dim=-1)
    recurrent_gates = torch.cat([before_reset, before_update, before_new * reset], dim=-1)
    return _StepGradients(input_gates, recurrent_gates, carried)


def _step_lstm(at: CellStep) -> tuple[Tensor, Tensor]:
    """i, f, o = sigmoid(a), g = tanh(a), c' = f c + i g, h' = o tanh(c')."""
    enter, forget, new, leave = (at.input_gates + at.recurrent_gates).chunk(4, dim=-1)
    enter, forget, new = torch.sigmoid(enter), torch.sigmoid(forget), torch.tanh(new)
    leave = torch.sigmoid(leave)
    torch.cat([enter, forget, new, leave], dim=-1, out=at.saved)
    cell = forget * _required(at.last.cell) + enter * new
    return leave * torch.tanh(cell), cell


def _backward_lstm(at: CellBackward, hidden: Tensor) -> _StepGradients:
    enter, forget, new, leave = at.saved.to(hidden.dtype).chunk(4, dim=-1)
    squashed = torch.tanh(_required(at.new.cell))
    cell = _required(at.grad_cell) + _through_tanh(hidden * leave, squashed)
    before = torch.cat(
        [
            _through_sigmoid(cell * new, enter),
            _through_sigmoid(cell * _required(at.last.cell), forget),
            _through_tanh(cell * enter, new),
            _through_sigmoid(hidden * squashed, leave),
        ],
        dim=-1,
    )
    return _StepGradients(before, before, torch.zeros_like(hidden), cell * forget)


_STEPS: dict[CellKind, Callable[[CellStep], tuple[Tensor, Tensor | None]]] = {
    "elman": _step_elman,
    "gru": _step_gru,
    "lstm": _step_lstm,
}
_BACKWARDS: dict[CellKind, Callable[[CellBackward, Tensor], _StepGradients]] = {
    "elman": _backward_elman,
    "gru": _backward_gru,
    "lstm": _backward_lstm,
}


def _through_tanh(gradient: Tensor, result: Tensor) -> Tensor:
    return gradient * (1 - result * result)


def _through_sigmoid(gradient: Tensor, result: Tensor) -> Tensor:
    return gradient * (result - result * result)


def _required(cell: Tensor | None) -> Tensor:
    if cell is None:
        raise ValueError("cell: expected one for an lstm, got none")
    return cell
