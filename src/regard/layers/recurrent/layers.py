"""One recurrent layer: whole sequences from the zero state, all positions from a given state, and
single steps.

Two functions compute each of them, with equal results: one by `scan` and `step`, on CPUs with
kernels and from packed weights, and one by PyTorch. Stacks choose by `is_exact` and `has_kernel`.

    sequences    scan_sequences    torch_sequences
    positions    scan_from         torch_from
    step         scan_step         torch_step
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard import kernels
from regard.fast_path import is_exactly, needs_formula
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.scan import Layer, Scanned, scan
from regard.layers.recurrent.step import step
from regard.names import CellKind
from regard.numerics.linear import affine, is_packed, plain_weight
from regard.shapes import Bool, Float, Int, Tensor

LAYERS: dict[CellKind, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {
    "elman": nn.RNN,  # Elman 1990: h = tanh(W x + U h)
    "gru": nn.GRU,  # Cho et al. 2014, with the reset gate after the product
    "lstm": nn.LSTM,  # Hochreiter and Schmidhuber 1997, with forget gates
}
MODES: dict[CellKind, str] = {"elman": "RNN_TANH", "gru": "GRU", "lstm": "LSTM"}
STEPS: dict[CellKind, Callable[..., Any]] = {
    "elman": torch.rnn_tanh_cell,
    "gru": torch.gru_cell,
    "lstm": torch.lstm_cell,
}
"""PyTorch's single step of each cell: the same numbers, without the overhead of a sequence."""


def is_exact(layer: nn.Module, kind: CellKind) -> bool:
    """Whether a layer is exactly PyTorch's of this kind, without hooks, so that `scan` may replace
    it."""
    if not is_exactly(layer, LAYERS[kind]) or layer.mode != MODES[kind] or layer.num_layers != 1:
        return False
    return bool(layer.bias) and not layer.proj_size


def has_kernel(layer: nn.Module, inputs: Tensor) -> bool:
    """Whether `scan` computes an exact layer: the kernels run, or the weights are packed, unless
    `scan` has no rules for a transform of `torch.func`."""
    return kernels.suit(inputs) or (is_packed(step_weights(layer)[0]) and not needs_formula())


def step_weights(layer: nn.Module, *, backwards: bool = False) -> list[Tensor]:
    """Return W and b of a layer's input, then U and c of its last state."""
    suffix = "_reverse" if backwards else ""
    return [
        getattr(layer, f"{name}_l0{suffix}")
        for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    ]


def scan_sequences(
    layer: nn.Module,
    inputs: Float[Tensor, "batch position input"],
    mask: Bool[Tensor, "batch position"],
    lengths: Int[Tensor, "batch"] | None,
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute whole sequences in each direction of a layer. Padding has zero states. `lengths` is
    None if no sequence has padding."""
    *_, recurrent, _ = step_weights(layer)
    zeros = inputs.new_zeros(inputs.size(0), recurrent.size(1))
    first = CellState(zeros, zeros if _kind(layer) == "lstm" else None)
    by_position, real = inputs.transpose(0, 1), None if lengths is None else mask.T
    directions = [
        _scan(layer, by_position, first, real, backwards=backwards)
        for backwards in ((False, True) if layer.bidirectional else (False,))
    ]
    states = torch.cat([direction.states for direction in directions], dim=-1)
    if real is not None:
        states = states * real[..., None]
    cells = [direction.cell for direction in directions if direction.cell is not None]
    end = torch.cat([direction.hidden for direction in directions], dim=-1)
    return states.transpose(0, 1), CellState(end, torch.cat(cells, dim=-1) if cells else None)


def torch_sequences(
    layer: nn.Module,
    inputs: Float[Tensor, "batch position input"],
    mask: Bool[Tensor, "batch position"],
    lengths: Int[Tensor, "batch"] | None,
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute `scan_sequences` by PyTorch."""
    below: Tensor | PackedSequence = inputs
    if lengths is not None:
        below = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    states, end = _unpacked(layer)(below)
    if isinstance(states, PackedSequence):
        states = pad_packed_sequence(states, batch_first=True, total_length=mask.size(1))[0]
    end, end_cell = end if isinstance(end, tuple) else (end, None)
    return states, CellState(_beside(end), None if end_cell is None else _beside(end_cell))


def scan_from(
    layer: nn.Module, inputs: Float[Tensor, "batch position input"], first: CellState
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute all positions forwards from a state."""
    output = _scan(layer, inputs.transpose(0, 1), first)
    return output.states.transpose(0, 1), CellState(output.hidden, output.cell)


def torch_from(
    layer: nn.Module, inputs: Float[Tensor, "batch position input"], first: CellState
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute `scan_from` by PyTorch."""
    layer, hidden = _unpacked(layer), first.hidden[None].contiguous()
    if first.cell is None:
        states, end = layer(inputs, hidden)
        return states, CellState(end[0], None)
    states, (end, end_cell) = layer(inputs, (hidden, first.cell[None].contiguous()))
    return states, CellState(end[0], end_cell[0])


def scan_step(layer: nn.Module, inputs: Float[Tensor, "batch input"], last: CellState) -> CellState:
    """Compute one step."""
    weight, bias, recurrent, shift = step_weights(layer)
    input_gates = affine(inputs, weight, bias)
    recurrent_gates = affine(last.hidden.to(input_gates.dtype), recurrent, shift)
    return step(_kind(layer), input_gates, recurrent_gates, last)


def torch_step(
    layer: nn.Module, inputs: Float[Tensor, "batch input"], last: CellState
) -> CellState:
    """Compute `scan_step` by PyTorch."""
    weight, bias, recurrent, shift = step_weights(_unpacked(layer))
    start = last.hidden if last.cell is None else (last.hidden, last.cell)
    end = STEPS[_kind(layer)](inputs, start, weight, recurrent, bias, shift)
    return CellState(*end) if isinstance(end, tuple) else CellState(end, None)


def _scan(
    layer: nn.Module,
    inputs: Float[Tensor, "position batch input"],
    first: CellState,
    mask: Bool[Tensor, "position batch"] | None = None,
    *,
    backwards: bool = False,
) -> Scanned:
    weight, bias, recurrent, shift = step_weights(layer, backwards=backwards)
    input_gates = affine(inputs, weight, bias)
    return scan(Layer(_kind(layer), recurrent, shift, backwards), input_gates, first, mask)


def _unpacked(layer: nn.Module) -> nn.Module:
    """Return the layer, or one with plain weights if its weights are packed, which PyTorch's layers
    cannot read."""
    weights = dict(layer.named_parameters())
    if not any(map(is_packed, weights.values())):
        return layer
    plain = layer._replicate_for_data_parallel()
    for name, weight in weights.items():
        setattr(plain, name, plain_weight(weight))
    return plain


def _kind(layer: nn.Module) -> CellKind:
    """Return the kind of an exact layer."""
    return next(kind for kind, mode in MODES.items() if mode == layer.mode)


def _beside(end: Float[Tensor, "direction batch hidden"]) -> Float[Tensor, "batch _"]:
    return end.transpose(0, 1).flatten(1)
