"""Stacks of recurrent layers of the three classic cells, with one shape of state for all.

Accelerated by `compiled/recurrent/stacks.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.masks import check_mask
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.checks import check_inputs, check_state
from regard.layers.recurrent.layers import LAYERS, run_from, run_sequences
from regard.layers.recurrent.lengths import padded_lengths
from regard.names import CellKind
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class LayerOutputs:
    """Output of every layer at every position, lowest first.

    An output is what the layer above and attention read: the state, unless a stack adds something
    to it. The outputs of two directions are concatenated, forward first."""

    outputs: tuple[Float[Tensor, "batch position _"], ...]

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

    @property
    def layers(self) -> LayerOutputs:
        """The outputs without the state."""
        return LayerOutputs(self.outputs)


@runtime_checkable
class Stack(Protocol):
    """Recurrent layers above each other, for encoders and decoders."""

    shared_size: int
    """Size of the end of the inputs that every layer reads."""

    def __call__(
        self,
        inputs: Float[Tensor, "batch position input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Compute all positions from a state, forwards and without padding."""

    def above(
        self,
        inputs: Float[Tensor, "batch position input"],
        lowest: Float[Tensor, "batch position hidden"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> LayerOutputs:
        """Return the outputs of all layers at all positions, given the inputs and the outputs of
        the lowest."""

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Compute a single position from a state. The output has one position."""

    def encode(
        self,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: tuple[int, ...] | None = None,
    ) -> RecurrentOutput:
        """Compute whole sequences from the zero state. Padding has zero outputs."""


RunLayer = Callable[[int, nn.Module, Tensor], tuple[Tensor, CellState]]
"""Function from the number of a layer, the layer and its inputs to its states and the last one."""


class LayerStack(nn.Module):
    """Layers of one kind of cell above each other. A subclass says in `_run` how they are
    connected.

    Each layer is a PyTorch layer of its own, because attention may use the states of any layer.

    The last `shared_size` numbers of the inputs enter every layer, as the context in the decoder of
    Wu et al. 2016.

    The GRU is PyTorch's: its reset gate multiplies the product, r * (U h + c). In Cho et al. 2014
    and in Bahdanau et al. 2015 (appendix A.1.1) it multiplies the last state, U (r * h)."""

    layers: nn.ModuleList
    dropout: Dropout
    has_steps = True
    """Whether the stack computes single steps: layers of two directions need whole sequences."""

    def __init__(
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        shared_size: int,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.shared_size = shared_size

    def forward(
        self,
        inputs: Float[Tensor, "batch position input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Compute all positions from a state, forwards and without padding, as decoders need.
        ValueError for shapes or devices that do not fit."""
        self._check(inputs, 3, hidden, cell)
        first = partial(CellState.of_layer, hidden, cell)

        def run_layer(number: int, layer: nn.Module, below: Tensor) -> tuple[Tensor, CellState]:
            return self._from_state(layer, below, first(number))

        return self._run(inputs, run_layer)

    def above(
        self,
        inputs: Float[Tensor, "batch position input"],
        lowest: Float[Tensor, "batch position hidden"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> LayerOutputs:
        """Return the outputs of all layers of `forward`, given those of the lowest."""
        first = partial(CellState.of_layer, hidden, cell)

        def run_above(number: int, layer: nn.Module, below: Tensor) -> tuple[Tensor, CellState]:
            if not number:
                return lowest, first(number)
            return self._from_state(layer, below, first(number))

        return self._run(inputs, run_above).layers

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        """Compute one step from a state: `forward` for a single position."""
        self._check(inputs, 2, hidden, cell)
        return self(inputs[:, None], hidden, cell)

    def encode(
        self,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: tuple[int, ...] | None = None,
    ) -> RecurrentOutput:
        """Compute whole sequences from the zero state, as encoders need.

        `lengths` are those of the mask. Given them, Python does not wait for a GPU to read the
        mask. On a CPU they are checked.

        All directions skip padding, which has zero outputs. ValueError if padding comes before a
        real position, a sequence has no real position, or shapes, lengths or devices do not
        fit."""
        check_inputs(inputs, 3, self.input_size, self.layers[0])
        check_mask(inputs, mask)
        padded = padded_lengths(mask, lengths)

        def run_layer(number: int, layer: nn.Module, below: Tensor) -> tuple[Tensor, CellState]:
            del number
            return self._sequences(layer, below, mask, padded)

        return self._run(inputs, run_layer)

    def _run(
        self, inputs: Float[Tensor, "batch position input"], run_layer: RunLayer
    ) -> RecurrentOutput:
        raise NotImplementedError

    def _entering(
        self,
        below: Float[Tensor, "batch position hidden"],
        inputs: Float[Tensor, "batch position input"],
    ) -> Float[Tensor, "batch position _"]:
        """Return what enters a layer above the lowest, given the outputs below it."""
        return with_shared(self.dropout(below), inputs, self.shared_size)

    def _from_state(
        self, layer: nn.Module, inputs: Float[Tensor, "batch position input"], first: CellState
    ) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
        return run_from(layer, inputs, first)

    def _sequences(
        self,
        layer: nn.Module,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: Int[Tensor, "batch"] | None,
    ) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
        return run_sequences(layer, inputs, mask, lengths)

    def _check(self, inputs: Tensor, num_axes: int, hidden: Tensor, cell: Tensor | None) -> None:
        if not self.has_steps:
            raise ValueError("a stack with two directions has no steps: use `encode`")
        check_inputs(inputs, num_axes, self.input_size, self.layers[0])
        check_state(inputs, hidden, cell, self.kind, (self.num_layers, self.hidden_size))


class RecurrentStack(LayerStack):
    """Layers that read the states of the layer below, with dropout between them."""

    def __init__(
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        shared_size: int = 0,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(kind, input_size, hidden_size, num_layers, shared_size)
        self.size = hidden_size * (2 if bidirectional else 1)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            LAYERS[kind](size, hidden_size, batch_first=True, bidirectional=bidirectional)
            for size in [input_size] + [self.size + shared_size] * (num_layers - 1)
        )

    def _run(
        self, inputs: Float[Tensor, "batch position input"], run_layer: RunLayer
    ) -> RecurrentOutput:
        outputs: list[Tensor] = []
        ends = []
        for number, layer in enumerate(self.layers):
            entering = self._entering(outputs[-1], inputs) if number else inputs
            states, end = run_layer(number, layer, entering)
            outputs.append(states)
            ends.append(end)
        return stack_output(outputs, ends)


def with_shared(
    below: Float[Tensor, "*batch hidden"], inputs: Float[Tensor, "*batch input"], size: int
) -> Float[Tensor, "*batch _"]:
    """Return what enters a layer: the outputs of the layer below, and the end of the stack's inputs
    of this size, which every layer reads."""
    if not size:
        return below
    return torch.cat([below, inputs[..., -size:].to(below.dtype)], dim=-1)


def stack_output(layers: list[Tensor], ends: list[CellState]) -> RecurrentOutput:
    """Return the output of a stack, given the outputs and the last states of its layers."""
    cells = [end.cell for end in ends if end.cell is not None]
    return RecurrentOutput(
        tuple(layers),
        torch.stack([end.hidden for end in ends], dim=1),
        torch.stack(cells, dim=1) if cells else None,
    )
