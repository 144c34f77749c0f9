"""Bridges: the first state of a decoder from the summary of the source."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from regard.models.contracts import Summary
from regard.numerics.linear import Linear
from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class FirstState:
    """State of every decoder layer before the first step. `cell` is None for a decoder without
    cells (GRU, Elman)."""

    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None = None


class CopyBridge(nn.Module):
    """The last state of the encoder is the first state of the decoder (Sutskever et al. 2014).

    Both must have the same number of layers and the same size. If only the decoder has cells, they
    start with zeros."""

    def __init__(self, *, with_cell: bool) -> None:
        super().__init__()
        self.with_cell = with_cell

    def forward(self, summary: Summary) -> FirstState:
        if not self.with_cell:
            return FirstState(summary.hidden)
        cell = torch.zeros_like(summary.hidden) if summary.cell is None else summary.cell
        # Sutskever et al. 2014, section 2 (from memory): h_0 = v, the last state of the encoder
        return FirstState(summary.hidden, cell)


class LinearBridge(nn.Module):
    """A linear layer and tanh from the whole summary to a first state of any size.

    s_0 = tanh(W h) (Bahdanau et al. 2015, appendix A.2.2). There h is the last state of the
    backward encoder; here it is the last state of every layer and direction. A cell has its own
    linear layer, over the encoder's cells or, if it has none, over its last states."""

    def __init__(
        self, summary_size: int, num_layers: int, hidden_size: int, *, with_cell: bool
    ) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)
        self.hidden = Linear(summary_size, num_layers * hidden_size)
        self.cell = Linear(summary_size, num_layers * hidden_size) if with_cell else None

    def forward(self, summary: Summary) -> FirstState:
        hidden = self._start(self.hidden, summary.hidden)
        if self.cell is None:
            return FirstState(hidden)
        cells = summary.hidden if summary.cell is None else summary.cell
        return FirstState(hidden, self._start(self.cell, cells))

    def _start(
        self, linear: nn.Linear, states: Float[Tensor, "batch _ _"]
    ) -> Float[Tensor, "batch layer hidden"]:
        """Return one vector for each decoder layer from the states or cells of a summary."""
        # Bahdanau et al. 2015, A.2.2: s_0 = tanh(W_s h_1)
        # Xu et al. 2015, section 3.1.2 if task is caption: h_0, c_0 = f_init((1 / L) sum_i a_i)
        inputs = states.flatten(1).to(linear.weight.dtype)  # cells may be in a larger type
        return torch.tanh(linear(inputs)).unflatten(1, self.shape)


class ZeroBridge(nn.Module):
    """The first state is zeros, so the decoder gets the source by attention only."""

    def __init__(self, num_layers: int, hidden_size: int, *, with_cell: bool) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)
        self.with_cell = with_cell

    def forward(self, summary: Summary) -> FirstState:
        zeros = summary.hidden.new_zeros(summary.hidden.size(0), *self.shape)
        return FirstState(zeros, zeros if self.with_cell else None)


Bridge = CopyBridge | LinearBridge | ZeroBridge
