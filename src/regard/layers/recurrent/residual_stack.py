"""Stacks of recurrent layers with residual connections (Wu et al. 2016, section 3.1).

    h^k_t = cell^k(x^{k-1}_t, h^k_{t-1})
    x^k_t = h^k_t                            for the first and the second layer
    x^k_t = h^k_t + x^{k-1}_t                from the third layer on

x are the outputs, h the states that continue the recurrence. The sum carries the input of a layer
past it, so signals and gradients reach the other end of a deep stack at full size.

A mixture of experts (`SigmoidExperts`) may be between the last two of K layers, with a residual
connection of its own (Shazeer et al. 2017, appendix E). Then layer K reads y in place of x:

    y_t = x^{K-1}_t + dropout(sigmoid(MoE(x^{K-1}_t)))

Accelerated by `compiled/recurrent/stacks.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.recurrent.layers import LAYERS
from regard.layers.recurrent.stack import (
    LayerStack,
    RecurrentOutput,
    RunLayer,
    stack_output,
)
from regard.names import CellKind
from regard.shapes import Float, Tensor

FIRST_RESIDUAL = 2
"""Index of the lowest layer with a residual connection."""


class ResidualStack(LayerStack):
    """Layers of one kind of cell with residual connections from the third layer on.

    Dropout is applied to the inputs of every layer but the first, and not to the residual
    connection. With `bidirectional`, the first layer alone runs in both directions, each of the
    hidden size, and the others forwards (section 3.2). Such a stack computes whole sequences only;
    the state after the last position has the layers above the first.

    `shared_size` is that of `RecurrentStack`. A stack has no experts until `experts` is set. They
    learn from `routings` which positions are padding; outside of it they compute all."""

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
        self.experts: nn.Module | None = None

    def _run(
        self, inputs: Float[Tensor, "batch position input"], run_layer: RunLayer
    ) -> RecurrentOutput:
        outputs: list[Tensor] = []
        ends, below = [], inputs
        for number, layer in enumerate(self.layers):
            entering = self._entering(below, inputs) if number else inputs
            states, end = run_layer(number, layer, entering)
            # Wu et al. 2016, section 3.1: x_t^i = m_t^i + x_t^{i-1}, from the third layer on
            below = states + below if number >= FIRST_RESIDUAL else states
            outputs.append(below)
            ends.append(end)
            if self.experts is not None and number == self.num_layers - 2:
                below = below + self.dropout(self.experts(below))
        return stack_output(outputs, ends if self.has_steps else ends[1:])
