"""Pictures as memories of cells, for decoders that write captions (Xu et al. 2015).

    picture --convolution--> grid of cells --rows one after the other--> memory
    summary: the mean of the cells, where a recurrent decoder starts (section 3.1.2)

Every cell has a learned vector of its place added, without which it would not know whether it is
left or right.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.data.batch import Pictures
from regard.layers.convolution import ConvolutionStack
from regard.layers.dropout import Dropout
from regard.models.contracts import Encoded, Summary


class ConvolutionEncoder(nn.Module):
    """A small convolutional network, trained from scratch."""

    def __init__(self, stack: ConvolutionStack, num_cells: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.stack = stack
        self.places = nn.Parameter(torch.empty(num_cells, stack.size).normal_(std=0.02))
        self.dropout = Dropout(dropout)

    def forward(self, source: Pictures, *, need_weights: bool = False) -> Encoded:
        """Cells do not look at each other, so weights that are asked for are none. ValueError for
        pictures of another size than it was made for."""
        del need_weights
        grid = self.stack(source.values.float() / 127.5 - 1)
        cells = grid.flatten(2).mT
        if cells.size(1) != self.places.size(0):
            raise ValueError(
                f"pictures of {source.values.size(-1)} make {cells.size(1)} cells, but this model "
                f"is for {self.places.size(0)}"
            )
        cells = cells + self.places
        cells = self.dropout(cells if source.rows is None else cells[source.rows])
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return Encoded((cells,), mask, Summary(cells.mean(dim=1)[:, None]))
