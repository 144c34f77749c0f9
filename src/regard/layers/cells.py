"""One step of each cell and the way back through it, for loops that gather gradients themselves.

A step starts from what the input and the last state give the gates, W x + b and U h + c, so that
the products with matrices can be taken wherever it is cheapest. Gates stand side by side as in
torch's weights; `kept` is what the way back needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class Step:
    """The new state."""

    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"] | None


@dataclass(frozen=True)
class StepBack:
    """The gradients of what a step started from; `hidden` without its way through the gates."""

    of_input: Float[Tensor, "batch gates"]
    recurrent: Float[Tensor, "batch gates"]
    hidden: Float[Tensor, "batch hidden"] | None
    cell: Float[Tensor, "batch hidden"] | None


class Cell(Protocol):
    """What every cell is. `num_gates` counts the parts of its sums, `num_kept` those it keeps."""

    num_gates: int
    num_kept: int

    def step(
        self, of_input: Tensor, recurrent: Tensor, last: Step, kept: Float[Tensor, "batch kept"]
    ) -> Step:
        """From the last state to the new one, filling `kept`."""

    def back(
        self,
        hidden: Float[Tensor, "batch hidden"],
        cell: Float[Tensor, "batch hidden"] | None,
        last: Step,
        new: Step,
        kept: Float[Tensor, "batch kept"],
    ) -> StepBack:
        """From the gradients of the new state to those of what it was made of."""


class ElmanCell:
    """h' = tanh(a), with a = W x + U h."""

    num_gates, num_kept = 1, 0

    def step(self, of_input: Tensor, recurrent: Tensor, last: Step, kept: Tensor) -> Step:
        del last, kept
        return Step(torch.tanh(of_input + recurrent), None)

    def back(
        self, hidden: Tensor, cell: Tensor | None, last: Step, new: Step, kept: Tensor
    ) -> StepBack:
        del cell, last, kept
        before = _through_tanh(hidden, new.hidden)
        return StepBack(before, before, None, None)


class GRUCell:
    """r, z = sigmoid(a), n = tanh(a_n + r u_n), h' = n + z (h - n), with u the recurrent part."""

    num_gates, num_kept = 3, 4

    def step(self, of_input: Tensor, recurrent: Tensor, last: Step, kept: Tensor) -> Step:
        size = last.hidden.size(-1)
        gates, new, part = kept.split([2 * size, size, size], dim=-1)
        torch.add(of_input[:, : 2 * size], recurrent[:, : 2 * size], out=gates).sigmoid_()
        part.copy_(recurrent[:, 2 * size :])
        reset, update = gates.chunk(2, dim=-1)
        torch.addcmul(of_input[:, 2 * size :], reset, part, out=new).tanh_()
        return Step(torch.lerp(new, last.hidden, update), None)

    def back(
        self, hidden: Tensor, cell: Tensor | None, last: Step, new: Step, kept: Tensor
    ) -> StepBack:
        del cell, new
        reset, update, fresh, part = kept.chunk(4, dim=-1)
        passed = hidden * update
        before_fresh = _through_tanh(hidden - passed, fresh)
        before_update = _through_sigmoid(hidden * (last.hidden - fresh), update)
        before_reset = _through_sigmoid(before_fresh * part, reset)
        of_input = torch.cat([before_reset, before_update, before_fresh], dim=-1)
        recurrent = torch.cat([before_reset, before_update, before_fresh * reset], dim=-1)
        return StepBack(of_input, recurrent, passed, None)


class LSTMCell:
    """i, f, o = sigmoid(a), g = tanh(a), c' = f c + i g, h' = o tanh(c')."""

    num_gates, num_kept = 4, 4

    def step(self, of_input: Tensor, recurrent: Tensor, last: Step, kept: Tensor) -> Step:
        torch.add(of_input, recurrent, out=kept)
        enter, forget, fresh, leave = kept.chunk(4, dim=-1)
        kept[:, : 2 * enter.size(-1)].sigmoid_()
        fresh.tanh_()
        leave.sigmoid_()
        cell = torch.addcmul(enter * fresh, forget, _there(last.cell))
        return Step(leave * torch.tanh(cell), cell)

    def back(
        self, hidden: Tensor, cell: Tensor | None, last: Step, new: Step, kept: Tensor
    ) -> StepBack:
        enter, forget, fresh, leave = kept.chunk(4, dim=-1)
        shown = torch.tanh(_there(new.cell))
        whole = _through_tanh(hidden * leave, shown)
        if cell is not None:
            whole = whole + cell
        before = torch.cat(
            [
                _through_sigmoid(whole * fresh, enter),
                _through_sigmoid(whole * _there(last.cell), forget),
                _through_tanh(whole * enter, fresh),
                _through_sigmoid(hidden * shown, leave),
            ],
            dim=-1,
        )
        return StepBack(before, before, None, whole * forget)


CELLS: dict[str, Cell] = {"elman": ElmanCell(), "gru": GRUCell(), "lstm": LSTMCell()}


def _through_tanh(gradient: Tensor, result: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward(gradient, result)


def _through_sigmoid(gradient: Tensor, result: Tensor) -> Tensor:
    return torch.ops.aten.sigmoid_backward(gradient, result)


def _there(cell: Tensor | None) -> Tensor:
    if cell is None:
        raise ValueError("an LSTM goes on from a cell, but none came")
    return cell
