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

Accelerated by `compiled/recurrent/stacks.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.feed_forward import PositionWise
from regard.layers.recurrent.layers import LAYERS
from regard.layers.recurrent.stack import (
    LayerStack,
    RecurrentOutput,
    RunLayer,
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


class ResidualStack(LayerStack):
    """Layers of one kind of cell with residual connections from the third layer on.

    Dropout is applied to the inputs of every layer but the first, and not to the residual
    connection. With `bidirectional`, the first layer alone runs in both directions, each of the
    hidden size, and the others forwards (section 3.2). Such a stack computes whole sequences only;
    the state after the last position has the layers above the first.

    `shared_size` is that of `RecurrentStack`. A stack has no experts until `experts` is set."""

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
        super().__init__(kind, input_size, hidden_size, num_layers, shared_size)
        self.size = hidden_size
        self.has_steps = not bidirectional
        self.dropout = Dropout(dropout)
        bottom_size = hidden_size * (2 if bidirectional else 1)
        below = [bottom_size] * (num_layers > 1) + [hidden_size] * (num_layers - 2)
        self.layers = nn.ModuleList(
            LAYERS[kind](
                size, hidden_size, batch_first=True, bidirectional=bidirectional and not number
            )
            for number, size in enumerate([input_size, *[size + shared_size for size in below]])
        )
        self.experts: PositionWise | None = None

    @property
    def has_experts(self) -> bool:
        """Whether experts compute each position between the last two layers."""
        return self.experts is not None

    def _run(
        self,
        inputs: Float[Tensor, "batch position input"],
        shared: Float[Tensor, "batch position shared"],
        run_layer: RunLayer,
        mask: Bool[Tensor, "batch position"] | None,
    ) -> RecurrentOutput:
        outputs: list[Tensor] = []
        ends, below, routing = [], inputs, None
        for number, layer in enumerate(self.layers):
            entering = concatenated(self.dropout(below), shared) if number else inputs
            states, end = run_layer(number, layer, entering)
            # Wu et al. 2016, section 3.1: x_t^i = m_t^i + x_t^{i-1}, from the third layer on
            below = states + below if number >= FIRST_RESIDUAL else states
            outputs.append(below)
            ends.append(end)
            if self.experts is not None and number == self.num_layers - 2:
                mixture = self.experts(below, mask)
                below, routing = below + self._change(mixture.states, mask), mixture.routing
        return stack_output(outputs, ends if self.has_steps else ends[1:], routing)

    def _change(
        self,
        mixture: Float[Tensor, "batch position size"],
        mask: Bool[Tensor, "batch position"] | None,
    ) -> Float[Tensor, "batch position size"]:
        """Return what the experts add to their inputs: nothing at padding."""
        # Shazeer et al. 2017, appendix E if experts: y = x + dropout(sigmoid(MoE(x)))
        change = self.dropout(torch.sigmoid(mixture))
        return change if mask is None else change * mask[..., None]
