"""One step of each recurrent cell.

    elman   h' = tanh(a)                                    Elman 1990
    gru     r, z = sigmoid(a), n = tanh(a_n + r u_n)        Cho et al. 2014
            h' = n + z (h - n)
    lstm    i, f, o = sigmoid(a), g = tanh(a)               Hochreiter and Schmidhuber 1997
            c' = f c + i g,  h' = o tanh(c')

with the sum a of W x + b and U h + c, of which u is the second. In `gru` the reset gate r
multiplies the product, as in PyTorch; in Cho et al. it multiplies the last state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.names import CellKind
from regard.shapes import Float, Tensor

NUM_GATES: dict[CellKind, int] = {"elman": 1, "gru": 3, "lstm": 4}
"""Number of gates of each cell."""


@dataclass(frozen=True)
class CellState:
    """State between two steps. The cell of an LSTM is at least float32."""

    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"] | None

    @classmethod
    def of_layer(
        cls,
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None,
        number: int,
    ) -> CellState:
        """Return the state of one layer of a stack, numbered from 0."""
        return cls(hidden[:, number], None if cell is None else cell[:, number])


def next_state(
    kind: CellKind,
    input_gates: Float[Tensor, "batch gates"],
    recurrent_gates: Float[Tensor, "batch gates"],
    last: CellState,
) -> CellState:
    """Return the state after a step, given W x + b and U h + c. ValueError for an LSTM without a
    cell."""
    if kind == "elman":
        # Elman 1990, from memory if cell is elman: h_t = tanh(W x_t + U h_{t-1})
        return CellState(torch.tanh(input_gates + recurrent_gates), None)
    if kind == "gru":
        reset_in, update_in, new_in = input_gates.chunk(3, dim=-1)
        reset_recurrent, update_recurrent, new_recurrent = recurrent_gates.chunk(3, dim=-1)
        # Cho et al. 2014, eq. 5 (from memory) if cell is gru: r = sigmoid(W_r x + U_r h_{t-1})
        reset = torch.sigmoid(reset_in + reset_recurrent)
        # Cho et al. 2014, eq. 6 (from memory) if cell is gru: z = sigmoid(W_z x + U_z h_{t-1})
        update = torch.sigmoid(update_in + update_recurrent)
        # Cho et al. 2014, eq. 8 (from memory) if cell is gru: h~_t = tanh(W x + r (U h_{t-1}))
        new = torch.tanh(new_in + reset * new_recurrent)
        # Cho et al. 2014, eq. 7 (from memory) if cell is gru: h_t = z h_{t-1} + (1 - z) h~_t
        return CellState(new + update * (last.hidden - new), None)
    if last.cell is None:
        raise ValueError("cell: expected one for an lstm, got none")
    enter, forget, new, leave = (input_gates + recurrent_gates).chunk(4, dim=-1)
    # Hochreiter and Schmidhuber 1997, from memory if cell is lstm: c_t = f c_{t-1} + i g
    # Xu et al. 2015, eq. 2 (from memory) if task is caption: c_t = f_t c_{t-1} + i_t g_t
    cell = torch.sigmoid(forget) * last.cell + torch.sigmoid(enter) * torch.tanh(new)
    # Hochreiter and Schmidhuber 1997, from memory if cell is lstm: h_t = o tanh(c_t)
    # Xu et al. 2015, eq. 3 (from memory) if task is caption: h_t = o_t tanh(c_t)
    return CellState((torch.sigmoid(leave) * torch.tanh(cell)).to(input_gates.dtype), cell)
