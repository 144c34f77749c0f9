"""From the summary of a source to a decoder's first state."""

from __future__ import annotations

import torch
from torch import nn

from regard.linear import Linear
from regard.models.contracts import Summary
from regard.shapes import Float, Tensor


class CopyBridge(nn.Module):
    """The decoder starts exactly where the encoder ended (Sutskever et al. 2014).

    Both need the same layers and sizes. A decoder with a cell beside an encoder without one starts
    with an empty cell."""

    def forward(self, summary: Summary) -> Summary:
        if summary.cell is None:
            return Summary(summary.hidden, torch.zeros_like(summary.hidden))
        return summary


class LinearBridge(nn.Module):
    """A linear layer and tanh over all of the summary, to a first state of any size.

    s_0 = tanh(W h), Bahdanau et al. 2015, appendix A.2.2, where h is the backward encoder's last
    state; here it is the last state of every layer and direction. A cell has a linear layer of its
    own, over the encoder's cells where it has some, over its last states where not."""

    def __init__(
        self, summary_size: int, num_layers: int, hidden_size: int, *, with_cell: bool
    ) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)
        self.hidden = Linear(summary_size, num_layers * hidden_size)
        self.cell = Linear(summary_size, num_layers * hidden_size) if with_cell else None

    def forward(self, summary: Summary) -> Summary:
        hidden = self._start(self.hidden, summary.hidden)
        if self.cell is None:
            return Summary(hidden)
        cells = summary.hidden if summary.cell is None else summary.cell
        return Summary(hidden, self._start(self.cell, cells))

    def _start(
        self, linear: nn.Linear, states: Float[Tensor, "batch layer hidden"]
    ) -> Float[Tensor, "batch layers hiddens"]:
        entered = states.flatten(1).to(linear.weight.dtype)  # cells may be in a larger type
        return torch.tanh(linear(entered)).unflatten(1, self.shape)


class ZeroBridge(nn.Module):
    """The decoder starts from nothing and learns of the source by attention alone."""

    def __init__(self, num_layers: int, hidden_size: int) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)

    def forward(self, summary: Summary) -> Summary:
        zeros = summary.hidden.new_zeros(summary.hidden.size(0), *self.shape)
        return Summary(zeros, zeros)


Bridge = CopyBridge | LinearBridge | ZeroBridge
