"""One recurrent layer of PyTorch: whole sequences from the zero state, and all positions from a
given state."""

from __future__ import annotations

from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.layers.recurrent.cells import CellState
from regard.names import CellKind
from regard.shapes import Bool, Float, Int, Tensor

LAYERS: dict[CellKind, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {
    "elman": nn.RNN,  # Elman 1990: h = tanh(W x + U h)
    "gru": nn.GRU,  # Cho et al. 2014, with the reset gate after the product
    "lstm": nn.LSTM,  # Hochreiter and Schmidhuber 1997, with forget gates
}


def step_weights(layer: nn.Module, *, backwards: bool = False) -> list[Tensor]:
    """Return W and b of a layer's input, then U and c of its last state."""
    suffix = "_reverse" if backwards else ""
    return [
        getattr(layer, f"{name}_l0{suffix}")
        for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    ]


def run_sequences(
    layer: nn.Module,
    inputs: Float[Tensor, "batch position input"],
    mask: Bool[Tensor, "batch position"],
    lengths: Int[Tensor, "batch"] | None,
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute whole sequences in each direction of a layer. Padding has zero states. `lengths` is
    None if no sequence has padding."""
    below: Tensor | PackedSequence = inputs
    if lengths is not None:
        below = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    # Bahdanau et al. 2015, section 3.2 (from memory) if bidirectional:
    #     h_j = [h_j forwards; h_j backwards]
    states, end = layer(below)
    if isinstance(states, PackedSequence):
        states = pad_packed_sequence(states, batch_first=True, total_length=mask.size(1))[0]
    end, end_cell = end if isinstance(end, tuple) else (end, None)
    return states, CellState(_beside(end), None if end_cell is None else _beside(end_cell))


def run_from(
    layer: nn.Module, inputs: Float[Tensor, "batch position input"], first: CellState
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute all positions forwards from a state."""
    hidden = first.hidden[None].contiguous()
    if first.cell is None:
        states, end = layer(inputs, hidden)
        return states, CellState(end[0], None)
    states, (end, end_cell) = layer(inputs, (hidden, first.cell[None].contiguous()))
    return states, CellState(end[0], end_cell[0])


def _beside(end: Float[Tensor, "direction batch hidden"]) -> Float[Tensor, "batch _"]:
    return end.transpose(0, 1).flatten(1)
