"""A recurrent layer over whole sequences, in one direction, with its gradient.

    forward      h_0 -> h_1 -> ... -> h_n            from W x_t + b of all positions
    backward     dh_n -> ... -> dh_0                 every step saves the gradient of its gates
    at the end   dU, dc                              of all steps in one product and one sum

A position whose mask is False leaves the state unchanged. The last state of a sequence is therefore
the one after its last real position; backwards, the first state is the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard.compiled.recurrent.cells import NUM_SAVED, CellBackward, CellStep, gradient_of_state
from regard.compiled.recurrent.native_cells import choose
from regard.layers.recurrent.cells import NUM_GATES, CellState
from regard.names import CellKind
from regard.numerics.linear import is_packed, linear, readable, weight_gradient
from regard.numerics.precision import precise_type
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class Layer:
    """One direction of a layer: its kind, recurrent weight and bias."""

    kind: CellKind
    recurrent: Float[Tensor, "gates hidden"]
    bias: Float[Tensor, "gates"]
    backwards: bool = False


@dataclass(frozen=True)
class Scanned:
    """Hidden state at every position; hidden state and cell, if any, after the last step."""

    states: Float[Tensor, "position batch hidden"]
    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"] | None


def scan(
    layer: Layer,
    input_gates: Float[Tensor, "position batch gates"],
    first: CellState,
    mask: Bool[Tensor, "position batch"] | None = None,
) -> Scanned:
    """Compute all steps from the first state, in the type of `input_gates`; cells at least in
    float32. `input_gates` is W x + b. ValueError for shapes or devices that do not fit."""
    _check(layer, input_gates, first, mask)
    dtype = input_gates.dtype
    recurrent = readable(layer.recurrent, input_gates)
    tensors = (
        input_gates,
        recurrent if is_packed(recurrent) else recurrent.to(dtype),
        layer.bias.to(dtype),
        first.hidden.to(dtype),
        None if first.cell is None else first.cell.to(precise_type(dtype)),
    )
    settings = _Settings(layer.kind, layer.backwards, mask, torch.is_grad_enabled())
    return Scanned(*_Scan.apply(*tensors, settings))


def _check(layer: Layer, input_gates: Tensor, first: CellState, mask: Tensor | None) -> None:
    if first.hidden.dim() != 2 or input_gates.dim() != 3:
        raise ValueError(
            "first state and inputs: expected (batch, hidden) and (position, batch, gates), got "
            f"{tuple(first.hidden.shape)} and {tuple(input_gates.shape)}"
        )
    (length, batch, _), size = input_gates.shape, first.hidden.size(1)
    gates = NUM_GATES[layer.kind] * size
    if first.cell is None and layer.kind == "lstm":
        raise ValueError("first cell: expected one for an lstm, got none")
    expected = [
        ("W x + b", input_gates, (length, batch, gates)),
        ("first hidden state", first.hidden, (batch, size)),
        ("first cell", first.cell, (batch, size)),
        ("recurrent weight", layer.recurrent, (gates, size)),
        ("recurrent bias", layer.bias, (gates,)),
        ("mask", mask, (length, batch)),
    ]
    for name, tensor, shape in expected:
        if tensor is None:
            continue
        if tensor.shape != shape or tensor.device != input_gates.device:
            raise ValueError(
                f"{name}: expected shape {shape} on {input_gates.device}, got "
                f"{tuple(tensor.shape)} on {tensor.device}"
            )
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask: expected bool (True = a real position), got {mask.dtype}")


@dataclass(frozen=True)
class _Settings:
    """Arguments of `_Scan` without gradients."""

    kind: CellKind
    backwards: bool
    mask: Tensor | None
    has_gradients: bool
    """Whether gradients are enabled. Inside `_Scan`, `needs_input_grad` ignores this."""


class _States:
    """States before and after the step of every position."""

    def __init__(self, length: int, first: CellState, *, backwards: bool) -> None:
        self._length, self._backwards = length, backwards
        self.hidden = first.hidden.new_empty(length + 1, *first.hidden.shape)
        self.cell = None
        self.hidden[self.ends[0]] = first.hidden
        if first.cell is not None:
            self.cell = first.cell.new_empty(length + 1, *first.cell.shape)
            self.cell[self.ends[0]] = first.cell
        cells = [None] * (length + 1) if self.cell is None else self.cell.unbind()
        self._states = [
            CellState(*state) for state in zip(self.hidden.unbind(), cells, strict=True)
        ]

    @property
    def ends(self) -> tuple[int, int]:
        """Indices of the first and the last state."""
        return (self._length, 0) if self._backwards else (0, self._length)

    @property
    def after(self) -> Tensor:
        """Hidden states after the step of each position."""
        return self.hidden[: self._length] if self._backwards else self.hidden[1:]

    @property
    def before(self) -> Tensor:
        """Hidden states before the step of each position."""
        return self.hidden[1:] if self._backwards else self.hidden[: self._length]

    def __iter__(self) -> Iterator[tuple[int, CellState, CellState]]:
        """Iterate over positions in the order of the steps, with the last and the new state."""
        positions = range(self._length)
        for position in reversed(positions) if self._backwards else positions:
            yield position, *self.at(position)

    def at(self, position: int) -> tuple[CellState, CellState]:
        """Return the states before and after the step of a position."""
        last, new = (position + 1, position) if self._backwards else (position, position + 1)
        return self._states[last], self._states[new]


class _Scan(torch.autograd.Function):
    """`scan` of tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        input_gates: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        hidden: Tensor,
        cell: Tensor | None,
        settings: _Settings,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        length, num_rows, _ = input_gates.shape
        kind, mask = settings.kind, settings.mask
        states = _States(length, CellState(hidden, cell), backwards=settings.backwards)
        num_saved = length if settings.has_gradients and any(ctx.needs_input_grad) else 1
        saved = input_gates.new_empty(num_saved, num_rows, NUM_SAVED[kind] * hidden.size(1))
        cells = choose(input_gates)
        inputs, saved_steps = input_gates.unbind(), saved.unbind()
        masks = [None] * length if mask is None else mask.unbind()
        for position, last, new in states:
            recurrent_gates = linear(last.hidden, recurrent, bias)
            step_saved = saved_steps[position if num_saved > 1 else 0]
            cells.step(
                kind,
                CellStep(inputs[position], recurrent_gates, last, new, step_saved, masks[position]),
            )
        ctx.save_for_backward(recurrent)
        ctx.states, ctx.saved, ctx.settings = states, saved, settings
        end = states.ends[1]
        last_cell = None if states.cell is None else states.cell[end].clone()
        ctx.set_materialize_grads(False)
        return states.after, states.hidden[end].clone(), last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        (recurrent,), states, saved = ctx.saved_tensors, ctx.states, ctx.saved
        kind, mask = ctx.settings.kind, ctx.settings.mask
        grad_states, grad_hidden, grad_last_cell = grad_outputs
        length, num_rows, size = states.after.shape
        gates = NUM_GATES[kind] * size
        precise = precise_type(saved.dtype)
        grad_input = saved.new_empty(length, num_rows, gates)
        grad_recurrent = torch.empty_like(grad_input) if kind == "gru" else grad_input
        carried = gradient_of_state(grad_hidden, states.before[0], precise)
        cell = None
        if states.cell is not None:
            cell = gradient_of_state(grad_last_cell, states.cell[0], precise)
        if grad_states is not None and (grad_states.stride(2) != 1 or grad_states.is_neg()):
            grad_states = grad_states.contiguous().resolve_neg()
        cells, through_gates = choose(saved), None
        grad_steps, masks = (
            [None] * length if x is None else x.unbind() for x in (grad_states, mask)
        )
        saved_steps, input_steps = saved.unbind(), grad_input.unbind()
        recurrent_steps = grad_recurrent.unbind()
        for position, last, new in reversed(list(states)):
            at = CellBackward(
                grad_steps[position],
                through_gates,
                carried,
                cell,
                last,
                new,
                saved_steps[position],
                input_steps[position],
                recurrent_steps[position],
                masks[position],
            )
            cells.backward(kind, at)
            through_gates = linear(recurrent_steps[position], recurrent.T)
        if through_gates is not None:
            carried += through_gates
        flat = grad_recurrent.flatten(0, 1)
        grad_weight = weight_gradient(flat, states.before.flatten(0, 1))
        grad_bias = flat.sum(dim=0)
        return grad_input, grad_weight, grad_bias, carried.to(saved.dtype), cell, None
