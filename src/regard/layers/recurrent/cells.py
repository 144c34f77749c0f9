"""One step of each recurrent cell and the way back through it, for loops over the positions.

A step starts from what the input and the last state give the gates, W x + b and U h + c, so that
the products with matrices can be taken wherever it is cheapest. Gates stand side by side as in
torch's weights. Results go where the records say; a row whose mask is False keeps its state.

These are the formulas in torch, for any device and type; `native_cells` does the same on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.names import CellKind
from regard.shapes import Bool, Float, Tensor

NUM_GATES: dict[CellKind, int] = {"elman": 1, "gru": 3, "lstm": 4}
"""Parts that a cell's sums have."""

NUM_KEPT: dict[CellKind, int] = {"elman": 0, "gru": 4, "lstm": 4}
"""Parts that a step keeps for the way back."""


@dataclass(frozen=True)
class CellState:
    """The state between two steps. The cell of an LSTM is at least float32."""

    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"] | None


@dataclass(frozen=True)
class Step:
    """One step: what it starts from, and the places of the new state and of what is kept."""

    of_input: Float[Tensor, "batch gates"]
    recurrent: Float[Tensor, "batch gates"]
    last: CellState
    new: CellState
    kept: Float[Tensor, "batch kept"]
    mask: Bool[Tensor, "batch"] | None = None


@dataclass(frozen=True)
class StepBack:
    """The way back through a step. The new state's gradient is the sum of `above`, which comes from
    outside, `around`, which came through the later step's gates, and `passed`, which passed them.

    `passed` and `cell` hold what the later step left there, and then what this one leaves;
    `of_input` and `recurrent` are the places of the gates' gradients, one place where they are the
    same (all cells but the GRU)."""

    above: Float[Tensor, "batch hidden"] | None
    around: Float[Tensor, "batch hidden"] | None
    passed: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"] | None
    last: CellState
    new: CellState
    kept: Float[Tensor, "batch kept"]
    of_input: Float[Tensor, "batch gates"]
    recurrent: Float[Tensor, "batch gates"]
    mask: Bool[Tensor, "batch"] | None = None


def step(kind: CellKind, at: Step) -> None:
    """From the last state to the new one."""
    hidden, cell = _STEPS[kind](at)
    if at.mask is not None:
        hidden = torch.where(at.mask[:, None], hidden, at.last.hidden)
    at.new.hidden.copy_(hidden)
    if cell is None:
        return
    if at.mask is not None:
        cell = torch.where(at.mask[:, None], cell, _there(at.last.cell))
    _there(at.new.cell).copy_(cell)


def back(kind: CellKind, at: StepBack) -> None:
    """From the gradient of the new state to those of what it was made of."""
    hidden = at.passed
    for part in (at.above, at.around):
        hidden = hidden if part is None else hidden + part
    found = _BACKS[kind](at, hidden)
    if at.mask is not None:
        real = at.mask[:, None]
        found = _Found(
            found.of_input * real,
            found.recurrent * real,
            torch.where(real, found.passed, hidden),
            None if found.cell is None else torch.where(real, found.cell, _there(at.cell)),
        )
    at.of_input.copy_(found.of_input)
    at.recurrent.copy_(found.recurrent)
    at.passed.copy_(found.passed)
    if found.cell is not None:
        _there(at.cell).copy_(found.cell)


@dataclass(frozen=True)
class _Found:
    """The gradients of one step."""

    of_input: Tensor
    recurrent: Tensor
    passed: Tensor
    cell: Tensor | None = None


def _step_elman(at: Step) -> tuple[Tensor, None]:
    """h' = tanh(a), with a = W x + b + U h + c."""
    return torch.tanh(at.of_input + at.recurrent), None


def _back_elman(at: StepBack, hidden: Tensor) -> _Found:
    before = _through_tanh(hidden, at.new.hidden)
    return _Found(before, before, torch.zeros_like(hidden))


def _step_gru(at: Step) -> tuple[Tensor, None]:
    """r, z = sigmoid(a), n = tanh(a_n + r u_n), h' = n + z (h - n), with u the recurrent part."""
    reset_in, update_in, fresh_in = at.of_input.chunk(3, dim=-1)
    reset_around, update_around, part = at.recurrent.chunk(3, dim=-1)
    reset, update = torch.sigmoid(reset_in + reset_around), torch.sigmoid(update_in + update_around)
    fresh = torch.tanh(fresh_in + reset * part)
    torch.cat([reset, update, fresh, part], dim=-1, out=at.kept)
    return torch.lerp(fresh, at.last.hidden, update), None


def _back_gru(at: StepBack, hidden: Tensor) -> _Found:
    reset, update, fresh, part = at.kept.to(hidden.dtype).chunk(4, dim=-1)
    passed = hidden * update
    before_fresh = _through_tanh(hidden - passed, fresh)
    before_update = _through_sigmoid(hidden * (at.last.hidden - fresh), update)
    before_reset = _through_sigmoid(before_fresh * part, reset)
    of_input = torch.cat([before_reset, before_update, before_fresh], dim=-1)
    recurrent = torch.cat([before_reset, before_update, before_fresh * reset], dim=-1)
    return _Found(of_input, recurrent, passed)


def _step_lstm(at: Step) -> tuple[Tensor, Tensor]:
    """i, f, o = sigmoid(a), g = tanh(a), c' = f c + i g, h' = o tanh(c')."""
    enter, forget, fresh, leave = (at.of_input + at.recurrent).chunk(4, dim=-1)
    enter, forget, fresh = torch.sigmoid(enter), torch.sigmoid(forget), torch.tanh(fresh)
    leave = torch.sigmoid(leave)
    torch.cat([enter, forget, fresh, leave], dim=-1, out=at.kept)
    cell = forget * _there(at.last.cell) + enter * fresh
    return leave * torch.tanh(cell), cell


def _back_lstm(at: StepBack, hidden: Tensor) -> _Found:
    enter, forget, fresh, leave = at.kept.to(hidden.dtype).chunk(4, dim=-1)
    shown = torch.tanh(_there(at.new.cell))
    cell = _there(at.cell) + _through_tanh(hidden * leave, shown)
    before = torch.cat(
        [
            _through_sigmoid(cell * fresh, enter),
            _through_sigmoid(cell * _there(at.last.cell), forget),
            _through_tanh(cell * enter, fresh),
            _through_sigmoid(hidden * shown, leave),
        ],
        dim=-1,
    )
    return _Found(before, before, torch.zeros_like(hidden), cell * forget)


_STEPS: dict[CellKind, Callable[[Step], tuple[Tensor, Tensor | None]]] = {
    "elman": _step_elman,
    "gru": _step_gru,
    "lstm": _step_lstm,
}
_BACKS: dict[CellKind, Callable[[StepBack, Tensor], _Found]] = {
    "elman": _back_elman,
    "gru": _back_gru,
    "lstm": _back_lstm,
}


def _through_tanh(gradient: Tensor, result: Tensor) -> Tensor:
    return gradient * (1 - result * result)


def _through_sigmoid(gradient: Tensor, result: Tensor) -> Tensor:
    return gradient * (result - result * result)


def _there(cell: Tensor | None) -> Tensor:
    if cell is None:
        raise ValueError("an LSTM goes on from a cell, but none came")
    return cell
