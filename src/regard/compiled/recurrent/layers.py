"""One recurrent layer by `scan` and `step`, on CPUs with kernels and from packed weights, for
stacks whose layers are exactly PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard import kernels
from regard.compiled.exact import is_exactly
from regard.compiled.recurrent.scan import Layer, Scanned, scan
from regard.compiled.recurrent.step import step
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.layers import LAYERS, step_weights
from regard.names import CellKind
from regard.numerics.linear import affine, is_packed, plain_weight
from regard.runtime.modes import needs_formula
from regard.shapes import Bool, Float, Int, Tensor

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


def scan_from(
    layer: nn.Module, inputs: Float[Tensor, "batch position input"], first: CellState
) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
    """Compute all positions forwards from a state."""
    output = _scan(layer, inputs.transpose(0, 1), first)
    return output.states.transpose(0, 1), CellState(output.hidden, output.cell)


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
    weight, bias, recurrent, shift = step_weights(unpacked(layer))
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


def unpacked(layer: nn.Module) -> nn.Module:
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
