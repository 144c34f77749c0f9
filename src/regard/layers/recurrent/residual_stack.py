"""Stacks of recurrent layers with residual connections (Wu et al. 2016, section 3.1).

    h^k_t = cell^k(x^{k-1}_t, h^k_{t-1})
    x^k_t = h^k_t                            for the first and the second layer
    x^k_t = h^k_t + x^{k-1}_t                from the third layer on

x are the outputs, h the states that continue the recurrence. The sum carries the input of a layer
past it, so signals and gradients reach the other end of a deep stack at full size.

A mixture of experts may be between the last two of K layers, with a residual connection and a
sigmoid of its own (Shazeer et al. 2017, appendix E). Then layer K reads y in place of x:

    y_t = x^{K-1}_t + dropout(sigmoid(MoE(x^{K-1}_t)))

The biases of the experts' outputs are negative at first, as those of the gates of highway networks
(Srivastava et al. 2015, section 2.2), so that y is nearly x. The paper does not name their values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from regard.fast_path import is_exactly
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import PositionWise
from regard.layers.masks import check_mask
from regard.layers.recurrent import layers as single
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.checks import check_beside, check_inputs, check_state
from regard.layers.recurrent.layers import LAYERS
from regard.layers.recurrent.lengths import padded_lengths
from regard.layers.recurrent.stack import (
    LayerOutputs,
    RecurrentOutput,
    concatenated,
    stack_output,
)
from regard.names import CellKind
from regard.shapes import Bool, Float, Tensor

FIRST_RESIDUAL = 2
"""Index of the lowest layer with a residual connection."""
EXPERTS_BIAS = -3.0
"""First biases of the experts' outputs: their sigmoid is 0.05. With 0 it is 0.5, more than x is at
first, and `multi30k-gnmt-experts` learned no attention in 16 epochs."""

RunLayer = Callable[[int, nn.Module, Tensor], tuple[Tensor, CellState]]
"""Function from the number of a layer, the layer and its inputs to its states."""


class ResidualStack(nn.Module):
    """Layers of one kind of cell with residual connections from the third layer on.

    Dropout is applied to the inputs of every layer but the first, and not to the residual
    connection. With `bidirectional`, the first layer alone runs in both directions, each of the
    hidden size, and the others forwards (section 3.2). Such a stack computes whole sequences only;
    the state after the last position has the layers above the first.

    `beside_size` is that of `RecurrentStack`. A stack has no experts until `experts` is set."""

    def __init__(
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        beside_size: int = 0,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.input_size = input_size
        self.hidden_size = self.size = hidden_size
        self.num_layers = num_layers
        self.beside_size = beside_size
        self.bidirectional = bidirectional
        self.dropout = Dropout(dropout)
        bottom_size = hidden_size * (2 if bidirectional else 1)
        below = [bottom_size] * (num_layers > 1) + [hidden_size] * (num_layers - 2)
        self.layers = nn.ModuleList(
            LAYERS[kind](
                size, hidden_size, batch_first=True, bidirectional=bidirectional and not number
            )
            for number, size in enumerate([input_size, *[size + beside_size for size in below]])
        )
        self.experts: PositionWise | None = None

    @property
    def has_experts(self) -> bool:
        """Whether experts compute each position between the last two layers."""
        return self.experts is not None

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
        self._check(inputs, 3, hidden, cell, beside)
        run = single.scan_from if self._scans(inputs) else single.torch_from
        first = partial(CellState.of_layer, hidden, cell)
        return self._run(
            inputs, beside, lambda number, layer, below: run(layer, below, first(number)), mask
        )

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
        del inputs  # only fast-forward connections read them
        run = single.scan_from if self._scans(lowest) else single.torch_from
        first = partial(CellState.of_layer, hidden, cell)

        def run_above(number: int, layer: nn.Module, below: Tensor) -> tuple[Tensor, CellState]:
            return run(layer, below, first(number)) if number else (below, first(number))

        return self._run(lowest, beside, run_above, mask).layers

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
        beside: Float[Tensor, "batch beside"] | None = None,
        mask: Bool[Tensor, "batch"] | None = None,
    ) -> RecurrentOutput:
        """Compute one step from a state: `forward` for a single position."""
        self._check(inputs, 2, hidden, cell, beside)
        position = inputs[:, None]
        beside = None if beside is None else beside[:, None]
        mask = None if mask is None else mask[:, None]
        if not is_exactly(self, ResidualStack) or not self.is_exact():
            return self(position, hidden, cell, beside, mask)
        step = single.scan_step if self._scans(inputs) else single.torch_step
        last = partial(CellState.of_layer, hidden, cell)

        def run_step(number: int, layer: nn.Module, below: Tensor) -> tuple[Tensor, CellState]:
            end = step(layer, below[:, 0], last(number))
            return end.hidden[:, None], end

        return self._run(position, beside, run_step, mask)

    def encode(
        self,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: tuple[int, ...] | None = None,
    ) -> RecurrentOutput:
        """Compute whole sequences from the zero state, as encoders need. `lengths` are those of the
        mask. Padding is skipped and has zero outputs. ValueError as of `RecurrentStack.encode`."""
        check_inputs(inputs, 3, self.input_size, self.layers[0])
        check_mask(inputs, mask)
        padded = padded_lengths(mask, lengths)
        run = single.scan_sequences if self._scans(inputs) else single.torch_sequences
        real = None if padded is None else mask
        return self._run(
            inputs, None, lambda _, layer, below: run(layer, below, mask, padded), real
        )

    def _run(
        self,
        inputs: Float[Tensor, "batch position input"],
        beside: Float[Tensor, "batch position beside"] | None,
        run_layer: RunLayer,
        mask: Bool[Tensor, "batch position"] | None,
    ) -> RecurrentOutput:
        outputs: list[Tensor] = []
        ends, below, routing = [], inputs, None
        for number, layer in enumerate(self.layers):
            entering = concatenated(self.dropout(below), beside) if number else inputs
            states, end = run_layer(number, layer, entering)
            below = states + below if number >= FIRST_RESIDUAL else states
            outputs.append(below)
            ends.append(end)
            if self.experts is not None and number == self.num_layers - 2:
                mixture = self.experts(below, mask)
                below, routing = below + self._change(mixture.states, mask), mixture.routing
        return stack_output(outputs, ends[1:] if self.bidirectional else ends, routing)

    def _change(
        self,
        mixture: Float[Tensor, "batch position size"],
        mask: Bool[Tensor, "batch position"] | None,
    ) -> Float[Tensor, "batch position size"]:
        """Return what the experts add to their inputs: nothing at padding."""
        change = self.dropout(torch.sigmoid(mixture))
        return change if mask is None else change * mask[..., None]

    def _check(
        self,
        inputs: Tensor,
        num_axes: int,
        hidden: Tensor,
        cell: Tensor | None,
        beside: Tensor | None,
    ) -> None:
        if self.bidirectional:
            raise ValueError("a stack with two directions has no steps: use `encode`")
        check_inputs(inputs, num_axes, self.input_size, self.layers[0])
        check_state(inputs, hidden, cell, self.kind, (self.num_layers, self.hidden_size))
        check_beside(inputs, beside, self.beside_size)

    def _scans(self, inputs: Tensor) -> bool:
        """Whether `scan` computes the layers."""
        return self.is_exact() and single.has_kernel(self.layers[0], inputs)

    def is_exact(self) -> bool:
        """Whether every layer is exactly of the type that this class creates, without hooks, so
        that `scan` may replace it."""
        return all(single.is_exact(layer, self.kind) for layer in self.layers)
