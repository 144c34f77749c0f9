"""Recurrent layers of the three classic cells, stacked, with one shape of state for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.shapes import Bool, Float, Int, Tensor

CellKind = Literal["elman", "gru", "lstm"]

CELLS: dict[CellKind, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {
    "elman": nn.RNN,  # Elman 1990: h = tanh(W x + U h)
    "gru": nn.GRU,  # Cho et al. 2014
    "lstm": nn.LSTM,  # Hochreiter and Schmidhuber 1997, with forget gates
}

STEP_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
STEPS: dict[CellKind, Callable[..., Any]] = {
    "elman": torch.rnn_tanh_cell,
    "gru": torch.gru_cell,
    "lstm": torch.lstm_cell,
}
"""One step of each: the same numbers, without what a whole sequence costs to set up (a quarter of
the time for a step of an LSTM of 256 in training)."""


@dataclass(frozen=True)
class RecurrentOutput:
    """The states of every layer at every position, and the last state of each layer.

    With two directions the states of both stand side by side, forward first."""

    layers: tuple[Float[Tensor, "batch position hidden"], ...]
    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None


class RecurrentStack(nn.Module):
    """Layers of one kind of cell; dropout between them, never on the top.

    One torch layer each, because attention may want the states of any of them."""

    def __init__(
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.num_layers = num_layers
        self.size = hidden_size * (2 if bidirectional else 1)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            CELLS[kind](size, hidden_size, batch_first=True, bidirectional=bidirectional)
            for size in [input_size] + [self.size] * (num_layers - 1)
        )

    def forward(
        self,
        inputs: Float[Tensor, "batch position input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Go on from a state, forwards, with no padding: how decoders step and read."""
        layers: list[Tensor] = []
        last_hidden, last_cell = [], []
        for number, layer in enumerate(self.layers):
            below = self.dropout(layers[-1]) if layers else inputs
            start = hidden[:, number].unsqueeze(0).contiguous()
            if cell is None:
                states, end = layer(below, start)
            else:
                states, (end, end_cell) = layer(
                    below, (start, cell[:, number].unsqueeze(0).contiguous())
                )
                last_cell.append(end_cell[0])
            layers.append(states)
            last_hidden.append(end[0])
        return RecurrentOutput(
            tuple(layers),
            torch.stack(last_hidden, dim=1),
            torch.stack(last_cell, dim=1) if last_cell else None,
        )

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """One step from a state: `forward` for a single position."""
        below, last_hidden, last_cell = inputs, [], []
        for number, layer in enumerate(self.layers):
            below = self.dropout(below) if number else below
            weights = [getattr(layer, name) for name in STEP_WEIGHTS]
            if cell is None:
                below = STEPS[self.kind](below, hidden[:, number], *weights)
            else:
                start = (hidden[:, number], cell[:, number])
                below, end_cell = STEPS[self.kind](below, start, *weights)
                last_cell.append(end_cell)
            last_hidden.append(below)
        return RecurrentOutput(
            tuple(state[:, None] for state in last_hidden),
            torch.stack(last_hidden, dim=1),
            torch.stack(last_cell, dim=1) if last_cell else None,
        )

    def read(
        self,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
    ) -> RecurrentOutput:
        """Read whole sequences from the zero state: how encoders read.

        Where nothing is padded torch's dense kernels run; else the sequences are packed, so that
        padding is never computed, never seen by the backward direction, and gives zero states.
        ValueError where padding comes before what is real, or a sequence is nothing but padding."""
        if mask.all():
            below: Tensor | PackedSequence = inputs
        else:
            lengths = _lengths(mask)
            below = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        layers, last_hidden, last_cell = [], [], []
        for number, layer in enumerate(self.layers):
            if number:
                below = self._drop(below)
            below, end = layer(below)
            end, end_cell = end if isinstance(end, tuple) else (end, None)
            layers.append(_unpack(below, mask.size(1)))
            last_hidden.append(_beside(end))
            if end_cell is not None:
                last_cell.append(_beside(end_cell))
        return RecurrentOutput(
            tuple(layers),
            torch.stack(last_hidden, dim=1),
            torch.stack(last_cell, dim=1) if last_cell else None,
        )

    def _drop(self, states: Tensor | PackedSequence) -> Tensor | PackedSequence:
        if isinstance(states, PackedSequence):
            return states._replace(data=self.dropout(states.data))
        return self.dropout(states)


def _lengths(mask: Bool[Tensor, "batch position"]) -> Int[Tensor, "batch"]:
    real = mask.cpu()
    lengths = real.sum(dim=1)
    if not torch.equal(real, torch.arange(mask.size(1)) < lengths[:, None]) or 0 in lengths:
        raise ValueError(
            "a mask must be True for a sequence's positions, one at least, and then False for its "
            "padding: pad at the end"
        )
    return lengths


def step_weights(layer: nn.Module) -> list[Tensor]:
    """W and b of what enters a layer, U and c of its last state."""
    return [
        getattr(layer, f"{name}_l0") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    ]


def _unpack(states: Tensor | PackedSequence, length: int) -> Tensor:
    if isinstance(states, PackedSequence):
        return pad_packed_sequence(states, batch_first=True, total_length=length)[0]
    return states


def _beside(end: Float[Tensor, "direction batch hidden"]) -> Float[Tensor, "batch _"]:
    return end.transpose(0, 1).flatten(1)
