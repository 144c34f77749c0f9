"""Stacks of recurrent layers of the three classic cells, with one shape of state for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard import kernels
from regard.fast_path import is_exactly, is_free_to_read
from regard.layers.dropout import Dropout
from regard.layers.recurrent.cells import NUM_SAVED, CellState, CellStep
from regard.layers.recurrent.native_cells import choose
from regard.layers.recurrent.scan import Layer, Scanned, scan
from regard.linear import affine, is_packed, linear
from regard.names import CellKind
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


@dataclass(frozen=True)
class RecurrentOutput:
    """States of every layer at every position, and the last state of each layer.

    The states of two directions are concatenated, forward first."""

    layers: tuple[Float[Tensor, "batch position hidden"], ...]
    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None


class RecurrentStack(nn.Module):
    """Layers of one kind of cell, with dropout between them.

    Each layer is a PyTorch layer of its own, because attention may use the states of any layer. On
    a CPU with kernels the layers are computed by `scan`, elsewhere by PyTorch, with the same
    results. A replaced layer and a layer with hooks are called.

    The GRU is PyTorch's: its reset gate multiplies the product, r * (U h + c). In Cho et al. 2014
    and in Bahdanau et al. 2015 (appendix A.1.1) it multiplies the last state, U (r * h)."""

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
        self.input_size = input_size
        self.num_layers = num_layers
        self.hidden_size = hidden_size
        self.size = hidden_size * (2 if bidirectional else 1)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            LAYERS[kind](size, hidden_size, batch_first=True, bidirectional=bidirectional)
            for size in [input_size] + [self.size] * (num_layers - 1)
        )

    def forward(
        self,
        inputs: Float[Tensor, "batch position input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Compute all positions from a state, forwards and without padding, as decoders need.
        ValueError for shapes or devices that do not fit."""
        self._check(inputs, 3, hidden, cell)
        run = self._scan_on if self._scans(inputs) else self._torch_on
        layers: list[Tensor] = []
        ends = []
        for number, layer in enumerate(self.layers):
            below = self.dropout(layers[-1]) if layers else inputs
            first = CellState(hidden[:, number], None if cell is None else cell[:, number])
            states, end = run(layer, below, first)
            layers.append(states)
            ends.append(end)
        return _output(layers, ends)

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Compute one step from a state: `forward` for a single position."""
        self._check(inputs, 2, hidden, cell)
        if not is_exactly(self, RecurrentStack) or not self.is_exact():
            return self(inputs[:, None], hidden, cell)
        if not self._has_kernel(inputs):
            step = self._torch_step
        elif torch.is_grad_enabled():
            return self(inputs[:, None], hidden, cell)
        else:
            step = self._step
        below, ends = inputs, []
        for number, layer in enumerate(self.layers):
            below = self.dropout(below) if number else below
            last = CellState(hidden[:, number], None if cell is None else cell[:, number])
            ends.append(step(layer, below, last))
            below = ends[-1].hidden
        return _output([end.hidden[:, None] for end in ends], ends)

    def encode(
        self,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: tuple[int, ...] | None = None,
    ) -> RecurrentOutput:
        """Compute whole sequences from the zero state, as encoders need.

        `lengths` are those of the mask. Given them, Python does not wait for a GPU to read the
        mask. On a CPU they are checked.

        Both directions skip padding, which has zero states. ValueError if padding comes before a
        real position, a sequence has no real position, or shapes, lengths or devices do not
        fit."""
        self._check_inputs(inputs, 3)
        shape, device = inputs.shape[:2], inputs.device
        if mask.dtype != torch.bool or mask.shape != shape or mask.device != device:
            raise ValueError(
                f"mask: expected bool (True = a real position) of shape {tuple(shape)} on "
                f"{device}, got {mask.dtype} of shape {tuple(mask.shape)} on {mask.device}"
            )
        padded = _padded(mask) if lengths is None else _checked(lengths, mask)
        run = self._scan_all if self._scans(inputs) else self._torch_all
        layers: list[Tensor] = []
        ends = []
        for layer in self.layers:
            below = self.dropout(layers[-1]) if layers else inputs
            states, end = run(layer, below, mask, padded)
            layers.append(states)
            ends.append(end)
        return _output(layers, ends)

    def _check_inputs(self, inputs: Tensor, num_axes: int) -> None:
        size = self.input_size
        if inputs.dim() != num_axes or inputs.size(-1) != size:
            axes = ("batch", "position", "input")[: num_axes - 1]
            raise ValueError(
                f"inputs: expected ({', '.join(axes)}, {size}), got shape {tuple(inputs.shape)}"
            )
        weight = getattr(self.layers[0], "weight_ih_l0", None)  # a replaced layer may have none
        if isinstance(weight, Tensor) and weight.device != inputs.device:
            raise ValueError(
                f"inputs: expected a tensor on {weight.device} as the weights, got one on "
                f"{inputs.device}"
            )

    def _check(self, inputs: Tensor, num_axes: int, hidden: Tensor, cell: Tensor | None) -> None:
        self._check_inputs(inputs, num_axes)
        state, device = (inputs.size(0), self.num_layers, self.hidden_size), inputs.device
        for name, tensor in (("hidden", hidden), ("cell", cell)):
            if tensor is not None and (tensor.shape != state or tensor.device != device):
                raise ValueError(
                    f"{name}: expected (batch, layer, hidden) = {state} on {inputs.device}, got "
                    f"{tuple(tensor.shape)} on {tensor.device}"
                )
        if (cell is None) == (self.kind == "lstm"):
            came = "none" if cell is None else "one"
            raise ValueError(f"cell: expected for an lstm alone, got {came} for {self.kind}")

    def _scans(self, inputs: Tensor) -> bool:
        """Whether `scan` computes the layers: if all layers are exactly PyTorch's, and the kernels
        run or the weights are packed, which PyTorch's layers do not support."""
        return self.is_exact() and self._has_kernel(inputs)

    def _has_kernel(self, inputs: Tensor) -> bool:
        return kernels.suit(inputs) or is_packed(step_weights(self.layers[0])[0])

    def is_exact(self) -> bool:
        """Whether every layer is exactly of the type that this class creates, without hooks, so
        that `scan` may replace it."""
        own, mode = LAYERS[self.kind], MODES[self.kind]
        for layer in self.layers:
            if not is_exactly(layer, own) or layer.mode != mode or layer.num_layers != 1:
                return False
            if not layer.bias or layer.proj_size:
                return False
        return True

    def packable_weights(self) -> Iterator[tuple[nn.Module, str]]:
        """Iterate over modules and names of weights that may be packed, as only `scan` reads
        them."""
        if not self.is_exact():
            return
        for layer in self.layers:
            for name, _ in layer.named_parameters():
                if name.startswith("weight"):
                    yield layer, name

    def _scan_on(
        self, layer: nn.Module, inputs: Tensor, first: CellState
    ) -> tuple[Tensor, CellState]:
        output = self._scan(layer, inputs.transpose(0, 1), first)
        return output.states.transpose(0, 1), CellState(output.hidden, output.cell)

    def _scan_all(
        self, layer: nn.Module, inputs: Tensor, mask: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, CellState]:
        zeros = inputs.new_zeros(inputs.size(0), self.hidden_size)
        first = CellState(zeros, zeros if self.kind == "lstm" else None)
        by_position, real = inputs.transpose(0, 1), None if lengths is None else mask.T
        directions = [
            self._scan(layer, by_position, first, real, backwards=backwards)
            for backwards in ((False, True) if layer.bidirectional else (False,))
        ]
        states = torch.cat([direction.states for direction in directions], dim=-1)
        if real is not None:
            states = states * real[..., None]
        cells = [direction.cell for direction in directions if direction.cell is not None]
        end = torch.cat([direction.hidden for direction in directions], dim=-1)
        return states.transpose(0, 1), CellState(end, torch.cat(cells, dim=-1) if cells else None)

    def _scan(
        self,
        layer: nn.Module,
        inputs: Float[Tensor, "position batch input"],
        first: CellState,
        mask: Bool[Tensor, "position batch"] | None = None,
        *,
        backwards: bool = False,
    ) -> Scanned:
        weight, bias, recurrent, shift = step_weights(layer, backwards=backwards)
        input_gates = affine(inputs, weight, bias)
        return scan(Layer(self.kind, recurrent, shift, backwards), input_gates, first, mask)

    def _step(self, layer: nn.Module, below: Tensor, last: CellState) -> CellState:
        """Compute one step without gradients."""
        weight, bias, recurrent, shift = step_weights(layer)
        input_gates = affine(below, weight, bias)
        hidden = kernels.dense(last.hidden.to(input_gates.dtype))
        cell = None if last.cell is None else kernels.dense(last.cell.float())
        new = CellState(torch.empty_like(hidden), None if cell is None else torch.empty_like(cell))
        saved = input_gates.new_empty(len(hidden), NUM_SAVED[self.kind] * hidden.size(1))
        recurrent_gates = linear(hidden, recurrent.to(hidden.dtype), shift.to(hidden.dtype))
        at = CellStep(input_gates, recurrent_gates, CellState(hidden, cell), new, saved)
        choose(hidden).step(self.kind, at)
        return new

    def _torch_step(self, layer: nn.Module, below: Tensor, last: CellState) -> CellState:
        weight, bias, recurrent, shift = step_weights(layer)
        start = last.hidden if last.cell is None else (last.hidden, last.cell)
        end = STEPS[self.kind](below, start, weight, recurrent, bias, shift)
        return CellState(*end) if isinstance(end, tuple) else CellState(end, None)

    def _torch_on(
        self, layer: nn.Module, inputs: Tensor, first: CellState
    ) -> tuple[Tensor, CellState]:
        hidden = first.hidden[None].contiguous()
        if first.cell is None:
            states, end = layer(inputs, hidden)
            return states, CellState(end[0], None)
        states, (end, end_cell) = layer(inputs, (hidden, first.cell[None].contiguous()))
        return states, CellState(end[0], end_cell[0])

    def _torch_all(
        self, layer: nn.Module, inputs: Tensor, mask: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, CellState]:
        below: Tensor | PackedSequence = inputs
        if lengths is not None:
            below = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        states, end = layer(below)
        if isinstance(states, PackedSequence):
            states = pad_packed_sequence(states, batch_first=True, total_length=mask.size(1))[0]
        end, end_cell = end if isinstance(end, tuple) else (end, None)
        return states, CellState(_beside(end), None if end_cell is None else _beside(end_cell))


def step_weights(layer: nn.Module, *, backwards: bool = False) -> list[Tensor]:
    """Return W and b of a layer's input, then U and c of its last state."""
    suffix = "_reverse" if backwards else ""
    return [
        getattr(layer, f"{name}_l0{suffix}")
        for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    ]


def _output(layers: list[Tensor], ends: list[CellState]) -> RecurrentOutput:
    cells = [end.cell for end in ends if end.cell is not None]
    return RecurrentOutput(
        tuple(layers),
        torch.stack([end.hidden for end in ends], dim=1),
        torch.stack(cells, dim=1) if cells else None,
    )


def _checked(
    lengths: tuple[int, ...], mask: Bool[Tensor, "batch position"]
) -> Int[Tensor, "batch"] | None:
    """Return checked lengths as a tensor; None if no sequence has padding."""
    batch, longest = mask.shape
    if not isinstance(lengths, (tuple, list)) or not all(
        isinstance(length, int) for length in lengths
    ):
        raise ValueError(
            f"lengths: expected a tuple of int, got {lengths!r}; leave them out to read them from "
            "the mask"
        )
    fit = len(lengths) == batch and all(1 <= length <= longest for length in lengths)
    result = torch.tensor(lengths, dtype=torch.long, device="cpu") if fit else None
    if result is not None and is_free_to_read(mask):
        fit = torch.equal(mask, torch.arange(longest, device="cpu") < result[:, None])
    if not fit:
        raise ValueError(
            f"lengths: expected those of the mask, {batch} integers from 1 to {longest}, got "
            f"{lengths}; leave them out to read them from the mask"
        )
    return None if min(lengths, default=longest) == longest else result


def _padded(mask: Bool[Tensor, "batch position"]) -> Int[Tensor, "batch"] | None:
    """Return the lengths of the sequences of a mask; None if no sequence has padding."""
    if mask.all():
        return None
    real = mask.cpu()
    lengths = real.sum(dim=1)
    positions = torch.arange(mask.size(1), device=real.device)
    if not torch.equal(real, positions < lengths[:, None]) or 0 in lengths:
        raise ValueError(
            "mask: expected True for the positions of each sequence, at least one, and then False "
            "for its padding; pad at the end"
        )
    return lengths


def _beside(end: Float[Tensor, "direction batch hidden"]) -> Float[Tensor, "batch _"]:
    return end.transpose(0, 1).flatten(1)
