"""Stacks of recurrent layers with fast-forward connections (Zhou et al. 2016, section 3).

    f^1_t = W^1 x_t + b^1
    f^k_t = W^k [s Half(f^{k-1}_t); h^{k-1}_t] + b^k     no nonlinearity and no recurrence
    h^k_t = cell^k(f^k_t, h^k_{t-1})

f are the inputs of all gates, and Half is their first half. An encoder has two columns of such
layers. Directions alternate from layer to layer and are opposite in the two columns. Its output is
W_p [h^1; h^2; Half(f^1); Half(f^2)] of the highest layers of both columns.

We had no copy of the paper's text: the equations are from memory, without the number s.

The product of the matrices W from layer to layer is a linear path whose signals are not bounded.
With the step of the other weights, it changes so fast that attention does not learn to align.
Code of the same group for another task (PaddlePaddle book, semantic role labelling) gives
these matrices a thousandth of the learning rate. Here s has this effect: the initial weights are
divided by s, so signals have the same size, and a step of Adam changes the product less.

Accelerated by `compiled/recurrent/stacks.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.masks import check_mask
from regard.layers.recurrent.cells import NUM_GATES, CellState, next_state
from regard.layers.recurrent.checks import check_inputs, check_state
from regard.layers.recurrent.layers import LAYERS, step_weights
from regard.layers.recurrent.lengths import padded_lengths
from regard.layers.recurrent.stack import (
    LayerOutputs,
    RecurrentOutput,
    stack_output,
    with_shared,
)
from regard.names import CellKind
from regard.numerics.linear import Linear, affine
from regard.shapes import Bool, Float, Tensor

FORWARD_SCALE = 0.03
"""Factor s of the fast-forward connections."""


class FastForwardStack(nn.Module):
    """Layers of one kind of cell with fast-forward connections.

    With `bidirectional`, there are two columns, each of the hidden size; such a stack computes
    whole sequences only. `shared_size` is that of `RecurrentStack`. Dropout is applied to the
    states below a layer, and not to the fast-forward connection. Initial weights of this
    connection keep the variance of its signals.

    The layers of PyTorch hold the weights. They are never called, because the connections enter
    their gates, and their hooks have no effect."""

    def __init__(
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        shared_size: int = 0,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.shared_size = shared_size
        self.half_size = NUM_GATES[kind] * hidden_size // 2
        self.dropout = Dropout(dropout)
        below = [self.half_size + hidden_size + shared_size] * (num_layers - 1)
        self.columns = nn.ModuleList(
            nn.ModuleList(
                LAYERS[kind](size, hidden_size, batch_first=True) for size in [input_size, *below]
            )
            for _ in range(2 if bidirectional else 1)
        )
        for column in self.columns:
            for layer in list(column.children())[1:]:
                carried = layer.get_parameter("weight_ih_l0").data[:, : self.half_size]
                nn.init.normal_(carried, std=1 / (FORWARD_SCALE * self.half_size**0.5))
        self.size = hidden_size * len(self.columns)
        self.projection = (
            Linear(2 * (hidden_size + self.half_size), self.size) if bidirectional else None
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
        layers = self._layers(0)
        gates = _gates(layers[0], inputs)
        states, end = self._run(layers[0], gates, CellState.of_layer(hidden, cell, 0))
        outputs, ends = self._run_above(inputs, gates, states, hidden, cell)
        return stack_output(outputs, [end, *ends])

    def above(
        self,
        inputs: Float[Tensor, "batch position input"],
        lowest: Float[Tensor, "batch position hidden"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> LayerOutputs:
        """Return the outputs of all layers of `forward`, given those of the lowest."""
        gates = _gates(self._layers(0)[0], inputs)
        return LayerOutputs(tuple(self._run_above(inputs, gates, lowest, hidden, cell)[0]))

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
        """Compute whole sequences from the zero state, as encoders need. `lengths` are those of the
        mask. Padding is skipped and has zero outputs. ValueError as of `RecurrentStack.encode`."""
        check_inputs(inputs, 3, self.input_size, self._layers(0)[0])
        check_mask(inputs, mask)
        is_padded = padded_lengths(mask, lengths) is not None
        columns = [self._encode_column(number, inputs, mask) for number in range(len(self.columns))]
        outputs = [
            torch.cat(states, dim=-1)
            for states in zip(*(column[0] for column in columns), strict=True)
        ]
        if self.projection is not None:
            halves = [gates[..., : self.half_size] for _, gates, _ in columns]
            # Zhou et al. 2016, section 3 (from memory): W_p [h^1; h^2; Half(f^1); Half(f^2)]
            outputs[-1] = self.projection(torch.cat([outputs[-1], *halves], dim=-1))
        if is_padded:
            outputs = [states.masked_fill(~mask[..., None], 0) for states in outputs]
        ends = zip(*(column[2] for column in columns), strict=True)
        return stack_output(outputs, [_joined(directions) for directions in ends])

    def _encode_column(
        self, number: int, inputs: Tensor, mask: Bool[Tensor, "batch position"]
    ) -> tuple[list[Tensor], Tensor, list[CellState]]:
        """Return the states of every layer of a column, the gates of the highest layer, and the
        last states."""
        zeros = inputs.new_zeros(len(inputs), self.hidden_size)
        first = CellState(zeros, zeros if self.kind == "lstm" else None)
        outputs: list[Tensor] = []
        ends = []
        below = inputs
        for depth, layer in enumerate(self._layers(number)):
            gates = _gates(layer, below)
            backwards = len(self.columns) == 2 and (depth + number) % 2 == 1
            states, end = self._run(layer, gates, first, mask, backwards=backwards)
            outputs.append(states)
            ends.append(end)
            below = self._entering(gates, states, inputs)
        return outputs, gates, ends

    def _run_above(
        self,
        inputs: Tensor,
        gates: Tensor,
        lowest: Tensor,
        hidden: Tensor,
        cell: Tensor | None,
    ) -> tuple[list[Tensor], list[CellState]]:
        """Return the states of all layers, and the last states of those above the lowest."""
        outputs, ends = [lowest], []
        for number, layer in enumerate(self._layers(0)[1:], start=1):
            gates = _gates(layer, self._entering(gates, outputs[-1], inputs))
            states, end = self._run(layer, gates, CellState.of_layer(hidden, cell, number))
            outputs.append(states)
            ends.append(end)
        return outputs, ends

    def _entering(
        self, gates: Tensor, states: Tensor, inputs: Tensor
    ) -> Float[Tensor, "batch position _"]:
        """Return what enters the layer above, given the gates and the states of a layer."""
        carried = FORWARD_SCALE * gates[..., : self.half_size]
        # Zhou et al. 2016, section 3 (from memory): [Half(f^{k-1}_t); h^{k-1}_t]
        below = torch.cat([carried, self.dropout(states.to(gates.dtype))], dim=-1)
        return with_shared(below, inputs, self.shared_size)

    def _run(
        self,
        layer: nn.Module,
        gates: Float[Tensor, "batch position gates"],
        first: CellState,
        mask: Bool[Tensor, "batch position"] | None = None,
        *,
        backwards: bool = False,
    ) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
        _, _, recurrent, shift = step_weights(layer)
        state, outputs = first, {}
        positions = range(gates.size(1))
        for position in reversed(positions) if backwards else positions:
            recurrent_gates = affine(state.hidden.to(gates.dtype), recurrent, shift)
            # Zhou et al. 2016, section 3 (from memory): h^k_t = cell^k(f^k_t, h^k_{t-1})
            new = next_state(self.kind, gates[:, position], recurrent_gates, state)
            state = new if mask is None else _where(mask[:, position, None], new, state)
            outputs[position] = state.hidden
        return torch.stack([outputs[position] for position in positions], dim=1), state

    def _layers(self, column: int) -> list[nn.Module]:
        return list(self.columns[column].children())

    def _check(self, inputs: Tensor, num_axes: int, hidden: Tensor, cell: Tensor | None) -> None:
        if len(self.columns) == 2:
            raise ValueError("a stack with two columns has no steps: use `encode`")
        check_inputs(inputs, num_axes, self.input_size, self._layers(0)[0])
        check_state(inputs, hidden, cell, self.kind, (self.num_layers, self.hidden_size))


def _gates(
    layer: nn.Module, inputs: Float[Tensor, "batch position input"]
) -> Float[Tensor, "batch position gates"]:
    """Return the inputs of all gates, W x + b."""
    weight, bias, _, _ = step_weights(layer)
    # Zhou et al. 2016, section 3 (from memory): f^k_t = W^k [Half(f^{k-1}_t); h^{k-1}_t] + b^k
    return affine(inputs, weight, bias)


def _where(real: Bool[Tensor, "batch 1"], new: CellState, last: CellState) -> CellState:
    """Return the new state, or the last one where the position is padding."""
    if new.cell is None or last.cell is None:
        return CellState(torch.where(real, new.hidden, last.hidden), None)
    return CellState(
        torch.where(real, new.hidden, last.hidden), torch.where(real, new.cell, last.cell)
    )


def _joined(ends: Sequence[CellState]) -> CellState:
    """Return the last states of the layers of both columns as one."""
    cells = [end.cell for end in ends if end.cell is not None]
    hidden = torch.cat([end.hidden for end in ends], dim=-1)
    return CellState(hidden, torch.cat(cells, dim=-1) if cells else None)
