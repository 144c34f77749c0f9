"""Stacks of recurrent layers of the three classic cells, with one shape of state for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.fast_path import is_exactly
from regard.layers.dropout import Dropout
from regard.layers.masks import check_mask
from regard.layers.recurrent import layers as single
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.checks import check_beside, check_inputs, check_state
from regard.layers.recurrent.layers import LAYERS
from regard.layers.recurrent.lengths import padded_lengths
from regard.layers.routing import Routing
from regard.names import CellKind
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class LayerOutputs:
    """Output of every layer at every position, lowest first, and the experts of all positions, if
    the stack has experts.

    An output is what the layer above and attention read: the state, unless a stack adds something
    to it. The outputs of two directions are concatenated, forward first."""

    outputs: tuple[Float[Tensor, "batch position _"], ...]
    routing: Routing | None = None

    @property
    def top(self) -> Float[Tensor, "batch position _"]:
        """Output of the highest layer."""
        return self.outputs[-1]


@dataclass(frozen=True)
class RecurrentOutput:
    """Output of every layer at every position, as in `LayerOutputs`, and the recurrent state after
    the last position."""

    outputs: tuple[Float[Tensor, "batch position _"], ...]
    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None
    routing: Routing | None = None

    @property
    def layers(self) -> LayerOutputs:
        """The outputs without the state."""
        return LayerOutputs(self.outputs, self.routing)


@runtime_checkable
class Stack(Protocol):
    """Recurrent layers above each other, for encoders and decoders."""

    beside_size: int
    """Size of the vectors beside the inputs of the layers above the lowest."""

    @property
    def has_experts(self) -> bool:
        """Whether experts compute each position between two layers."""

    def __call__(
        self,
        inputs: Float[Tensor, "batch position input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch position beside"] | None = None,
        mask: Bool[Tensor, "batch position"] | None = None,
    ) -> RecurrentOutput:
        """Compute all positions from a state, forwards and without padding. `beside` is
        concatenated to the inputs of every layer above the lowest. The mask is True for real
        positions; None if all are real. Experts skip padding."""

    def above(
        self,
        inputs: Float[Tensor, "batch position input"],
        lowest: Float[Tensor, "batch position hidden"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch position beside"] | None = None,
        mask: Bool[Tensor, "batch position"] | None = None,
    ) -> LayerOutputs:
        """Return the outputs of all layers at all positions, given the inputs and the outputs of
        the lowest."""

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch beside"] | None = None,
        mask: Bool[Tensor, "batch"] | None = None,
    ) -> RecurrentOutput:
        """Compute a single position from a state. The output has one position."""

    def encode(
        self,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: tuple[int, ...] | None = None,
    ) -> RecurrentOutput:
        """Compute whole sequences from the zero state. Padding has zero outputs."""


class RecurrentStack(nn.Module):
    """Layers of one kind of cell, with dropout between them.

    Each layer is a PyTorch layer of its own, because attention may use the states of any layer. On
    a CPU with kernels the layers are computed by `scan`, elsewhere by PyTorch, with the same
    results. A replaced layer and a layer with hooks are called.

    `beside_size` is the size of vectors that are concatenated to the inputs of every layer above
    the lowest, as the context in the decoder of Wu et al. 2016.

    The GRU is PyTorch's: its reset gate multiplies the product, r * (U h + c). In Cho et al. 2014
    and in Bahdanau et al. 2015 (appendix A.1.1) it multiplies the last state, U (r * h)."""

    has_experts = False

    def __init__(
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        beside_size: int = 0,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.input_size = input_size
        self.num_layers = num_layers
        self.beside_size = beside_size
        self.hidden_size = hidden_size
        self.size = hidden_size * (2 if bidirectional else 1)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            LAYERS[kind](size, hidden_size, batch_first=True, bidirectional=bidirectional)
            for size in [input_size] + [self.size + beside_size] * (num_layers - 1)
        )

    def forward(
        self,
        inputs: Float[Tensor, "batch position input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch position beside"] | None = None,
        mask: Bool[Tensor, "batch position"] | None = None,
    ) -> RecurrentOutput:
        """Compute all positions from a state, forwards and without padding, as decoders need.
        ValueError for shapes or devices that do not fit."""
        del mask  # only experts skip padding
        self._check(inputs, 3, hidden, cell, beside)
        run = single.scan_from if self._scans(inputs) else single.torch_from
        layers: list[Tensor] = []
        ends = []
        for number, layer in enumerate(self.layers):
            below = concatenated(self.dropout(layers[-1]), beside) if layers else inputs
            first = CellState.of_layer(hidden, cell, number)
            states, end = run(layer, below, first)
            layers.append(states)
            ends.append(end)
        return stack_output(layers, ends)

    def above(
        self,
        inputs: Float[Tensor, "batch position input"],
        lowest: Float[Tensor, "batch position hidden"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch position beside"] | None = None,
        mask: Bool[Tensor, "batch position"] | None = None,
    ) -> LayerOutputs:
        """Return the outputs of all layers of `forward`, given those of the lowest."""
        del inputs, mask  # only fast-forward connections read inputs; only experts skip padding
        run = single.scan_from if self._scans(lowest) else single.torch_from
        outputs = [lowest]
        for number, layer in enumerate(self.layers[1:], start=1):
            first = CellState.of_layer(hidden, cell, number)
            below = concatenated(self.dropout(outputs[-1]), beside)
            outputs.append(run(layer, below, first)[0])
        return LayerOutputs(tuple(outputs))

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch beside"] | None = None,
        mask: Bool[Tensor, "batch"] | None = None,
    ) -> RecurrentOutput:
        """Compute one step from a state: `forward` for a single position."""
        del mask
        self._check(inputs, 2, hidden, cell, beside)
        if not is_exactly(self, RecurrentStack) or not self.is_exact():
            position = () if beside is None else (beside[:, None],)
            return self(inputs[:, None], hidden, cell, *position)
        step = single.scan_step if self._has_kernel(inputs) else single.torch_step
        below, ends = inputs, []
        for number, layer in enumerate(self.layers):
            below = concatenated(self.dropout(below), beside) if number else below
            last = CellState.of_layer(hidden, cell, number)
            ends.append(step(layer, below, last))
            below = ends[-1].hidden
        return stack_output([end.hidden[:, None] for end in ends], ends)

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
        check_inputs(inputs, 3, self.input_size, self.layers[0])
        check_mask(inputs, mask)
        padded = padded_lengths(mask, lengths)
        run = single.scan_sequences if self._scans(inputs) else single.torch_sequences
        layers: list[Tensor] = []
        ends = []
        for layer in self.layers:
            below = self.dropout(layers[-1]) if layers else inputs
            states, end = run(layer, below, mask, padded)
            layers.append(states)
            ends.append(end)
        return stack_output(layers, ends)

    def _check(
        self,
        inputs: Tensor,
        num_axes: int,
        hidden: Tensor,
        cell: Tensor | None,
        beside: Tensor | None,
    ) -> None:
        check_inputs(inputs, num_axes, self.input_size, self.layers[0])
        check_state(inputs, hidden, cell, self.kind, (self.num_layers, self.hidden_size))
        check_beside(inputs, beside, self.beside_size)

    def _scans(self, inputs: Tensor) -> bool:
        """Whether `scan` computes the layers: if all layers are exactly PyTorch's, and the kernels
        run or the weights are packed, which PyTorch's layers do not support."""
        return self.is_exact() and self._has_kernel(inputs)

    def _has_kernel(self, inputs: Tensor) -> bool:
        return single.has_kernel(self.layers[0], inputs)

    def is_exact(self) -> bool:
        """Whether every layer is exactly of the type that this class creates, without hooks, so
        that `scan` may replace it."""
        return all(single.is_exact(layer, self.kind) for layer in self.layers)


def concatenated(
    below: Float[Tensor, "*batch hidden"], beside: Float[Tensor, "*batch beside"] | None
) -> Float[Tensor, "*batch _"]:
    """Return the inputs of a layer: the outputs of the layer below, and the vectors beside them."""
    return below if beside is None else torch.cat([below, beside.to(below.dtype)], dim=-1)


def stack_output(
    layers: list[Tensor], ends: list[CellState], routing: Routing | None = None
) -> RecurrentOutput:
    """Return the output of a stack, given the outputs and the last states of its layers."""
    cells = [end.cell for end in ends if end.cell is not None]
    return RecurrentOutput(
        tuple(layers),
        torch.stack([end.hidden for end in ends], dim=1),
        torch.stack(cells, dim=1) if cells else None,
        routing,
    )
