"""A recurrent layer over whole sequences, in one direction, with its way back.

    forward      h_0 -> h_1 -> ... -> h_n            from W x_t + b, which are all there before
    way back     dh_n -> ... -> dh_0                 every step keeps the gradient of its gates
    at the end   dU, dc                              of all steps in one product and one sum

A position whose mask is False leaves the state as it was, so a sequence's last state is the one
after its last real position, and in the other direction padding is passed over before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard.layers.recurrent.cells import NUM_GATES, NUM_KEPT, CellState, Step, StepBack
from regard.layers.recurrent.native_cells import choose
from regard.linear import linear, weight_gradient
from regard.names import CellKind
from regard.precise import precise_type
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class Layer:
    """What one direction of a layer is, beside what its input is multiplied by."""

    kind: CellKind
    recurrent: Float[Tensor, "gates hidden"]
    bias: Float[Tensor, "gates"]
    backwards: bool = False


@dataclass(frozen=True)
class Scanned:
    """The state at every position, that of the last step, and its cell where there are cells."""

    states: Float[Tensor, "position batch hidden"]
    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"] | None


def scan(
    layer: Layer,
    of_input: Float[Tensor, "position batch gates"],
    first: CellState,
    mask: Bool[Tensor, "position batch"] | None = None,
) -> Scanned:
    """All steps from the first state, in the type of `of_input`; cells at least in float32.
    ValueError for shapes that do not fit."""
    _check(layer, of_input, first, mask)
    dtype = of_input.dtype
    given = (
        of_input,
        layer.recurrent.to(dtype),
        layer.bias.to(dtype),
        first.hidden.to(dtype),
        None if first.cell is None else first.cell.to(precise_type(dtype)),
    )
    path = _Path(layer.kind, layer.backwards, mask, torch.is_grad_enabled())
    return Scanned(*_Scan.apply(*given, path))


def _check(layer: Layer, of_input: Tensor, first: CellState, mask: Tensor | None) -> None:
    if first.hidden.dim() != 2 or of_input.dim() != 3:
        raise ValueError(
            "first state and inputs: expected (batch, hidden) and (position, batch, gates), got "
            f"{tuple(first.hidden.shape)} and {tuple(of_input.shape)}"
        )
    (length, batch, _), size = of_input.shape, first.hidden.size(1)
    gates = NUM_GATES[layer.kind] * size
    if first.cell is None and layer.kind == "lstm":
        raise ValueError("first cell: expected one for an lstm, got none")
    expected = [
        ("W x + b", of_input, (length, batch, gates)),
        ("first hidden state", first.hidden, (batch, size)),
        ("first cell", first.cell, (batch, size)),
        ("recurrent weight", layer.recurrent, (gates, size)),
        ("recurrent bias", layer.bias, (gates,)),
        ("mask", mask, (length, batch)),
    ]
    for name, tensor, shape in expected:
        if tensor is None:
            continue
        if tensor.shape != shape or tensor.device != of_input.device:
            raise ValueError(
                f"{name}: expected shape {shape} on {of_input.device}, got {tuple(tensor.shape)} "
                f"on {tensor.device}"
            )
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask: expected bool (True = a real position), got {mask.dtype}")


@dataclass(frozen=True)
class _Path:
    """How the steps go."""

    kind: CellKind
    backwards: bool
    mask: Tensor | None
    learns: bool
    """Known outside of `_Scan` alone, where `needs_input_grad` holds without gradients too."""


class _Moments:
    """Every state, by position: the one before a step and the one after it."""

    def __init__(self, length: int, first: CellState, *, backwards: bool) -> None:
        self._length, self._backwards = length, backwards
        self.hidden = first.hidden.new_empty(length + 1, *first.hidden.shape)
        self.cell = None
        self.hidden[self.places[0]] = first.hidden
        if first.cell is not None:
            self.cell = first.cell.new_empty(length + 1, *first.cell.shape)
            self.cell[self.places[0]] = first.cell
        cells = [None] * (length + 1) if self.cell is None else self.cell.unbind()
        self._states = [
            CellState(*state) for state in zip(self.hidden.unbind(), cells, strict=True)
        ]

    @property
    def places(self) -> tuple[int, int]:
        """Where the first and the last state lie."""
        return (self._length, 0) if self._backwards else (0, self._length)

    @property
    def states(self) -> Tensor:
        """After the step of each position."""
        return self.hidden[: self._length] if self._backwards else self.hidden[1:]

    @property
    def before(self) -> Tensor:
        """Before the step of each position."""
        return self.hidden[1:] if self._backwards else self.hidden[: self._length]

    def __iter__(self) -> Iterator[tuple[int, CellState, CellState]]:
        """The positions in the order of the steps, each with its last and new state."""
        positions = range(self._length)
        for position in reversed(positions) if self._backwards else positions:
            yield position, *self.around(position)

    def around(self, position: int) -> tuple[CellState, CellState]:
        """Before and after the step of this position."""
        last, new = (position + 1, position) if self._backwards else (position, position + 1)
        return self._states[last], self._states[new]


class _Scan(torch.autograd.Function):
    """`scan` of tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        of_input: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        hidden: Tensor,
        cell: Tensor | None,
        path: _Path,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        length, num_rows, _ = of_input.shape
        kind, mask = path.kind, path.mask
        moments = _Moments(length, CellState(hidden, cell), backwards=path.backwards)
        needed = length if path.learns and any(ctx.needs_input_grad) else 1
        kept = of_input.new_empty(needed, num_rows, NUM_KEPT[kind] * hidden.size(1))
        cells = choose(of_input)
        inputs, rooms = of_input.unbind(), kept.unbind()
        masks = [None] * length if mask is None else mask.unbind()
        for position, last, new in moments:
            around = linear(last.hidden, recurrent, bias)
            room = rooms[position if needed > 1 else 0]
            cells.step(kind, Step(inputs[position], around, last, new, room, masks[position]))
        ctx.save_for_backward(recurrent)
        ctx.moments, ctx.kept, ctx.path = moments, kept, path
        end = moments.places[1]
        last_cell = None if moments.cell is None else moments.cell[end].clone()
        ctx.set_materialize_grads(False)
        return moments.states, moments.hidden[end].clone(), last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *above: Tensor | None) -> tuple[Tensor | None, ...]:
        (recurrent,), moments, kept = ctx.saved_tensors, ctx.moments, ctx.kept
        kind, mask = ctx.path.kind, ctx.path.mask
        grad_states, grad_hidden, grad_cell = above
        length, num_rows, size = moments.states.shape
        gates = NUM_GATES[kind] * size
        precise = precise_type(kept.dtype)
        of_input = kept.new_empty(length, num_rows, gates)
        of_recurrent = torch.empty_like(of_input) if kind == "gru" else of_input
        passed = _start(grad_hidden, kept, (num_rows, size), precise)
        cell = None
        if moments.cell is not None:
            cell = _start(grad_cell, kept, (num_rows, size), precise)
        if grad_states is not None and (grad_states.stride(2) != 1 or grad_states.is_neg()):
            grad_states = grad_states.contiguous().resolve_neg()
        cells, products = choose(kept), None
        rooms, grad_inputs, grad_recurrents = (
            kept.unbind(),
            of_input.unbind(),
            of_recurrent.unbind(),
        )
        aboves, masks = ([None] * length if x is None else x.unbind() for x in (grad_states, mask))
        for position, last, new in reversed(list(moments)):
            at = StepBack(
                aboves[position],
                products,
                passed,
                cell,
                last,
                new,
                rooms[position],
                grad_inputs[position],
                grad_recurrents[position],
                masks[position],
            )
            cells.back(kind, at)
            products = linear(grad_recurrents[position], recurrent.T)
        if products is not None:
            passed += products
        flat = of_recurrent.flatten(0, 1)
        grad_recurrent = weight_gradient(flat, moments.before.flatten(0, 1))
        grad_bias = flat.sum(dim=0)
        return of_input, grad_recurrent, grad_bias, passed.to(kept.dtype), cell, None


def _start(
    gradient: Tensor | None, like: Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> Tensor:
    """The gradient of the last state, which the steps then work on."""
    if gradient is None:
        return like.new_zeros(shape, dtype=dtype)
    return gradient.to(dtype, copy=True).contiguous().resolve_neg()
