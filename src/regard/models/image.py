"""Pictures as memories of cells, for decoders that write captions (Xu et al. 2015).

    picture --convolution, or a pretrained network--> grid of cells --row after row--> memory
    summary: the mean of the cells, where a recurrent decoder starts (section 3.1.2)

Every cell has a learned vector of its place added, without which it would not know whether it is
left or right.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.data.batch import GridFeatures, Images
from regard.layers.convolution import ConvolutionStack
from regard.layers.dropout import Dropout
from regard.linear import Linear
from regard.models.contracts import Encoded, Summary
from regard.models.vision_backbone import Backbone
from regard.shapes import Float, Int, Tensor


class CellPositions(nn.Module):
    """Adds every cell's place, and makes the memory of the rows that are about each picture."""

    def __init__(self, num_cells: int, size: int, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(num_cells, size).normal_(std=0.02))
        self.dropout = Dropout(dropout)

    def forward(
        self, cells: Float[Tensor, "picture cell size"], rows: Int[Tensor, "batch"] | None
    ) -> Encoded:
        """With the mean of all cells as the summary, of one layer. ValueError for another number of
        cells than it was made for."""
        if cells.size(1) != len(self.vectors):
            raise ValueError(
                f"pictures of {cells.size(1)} cells came, but this model is for "
                f"{len(self.vectors)}: they are of another size"
            )
        cells = cells + self.vectors
        cells = self.dropout(cells if rows is None else cells[rows])
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return Encoded((cells,), mask, Summary(cells.mean(dim=1)[:, None]))


class ConvolutionEncoder(nn.Module):
    """A small convolutional network, trained from scratch."""

    def __init__(self, stack: ConvolutionStack, num_cells: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.stack = stack
        self.places = CellPositions(num_cells, stack.size, dropout)

    def forward(self, source: Images, *, need_weights: bool = False) -> Encoded:
        """Cells do not look at each other, so weights that are asked for are none."""
        del need_weights
        scaled = source.values.float() / 127.5 - 1
        grid = self.stack(scaled.to(self.places.vectors.dtype))
        return self.places(grid.flatten(2).mT, source.rows)


class BackboneEncoder(nn.Module):
    """A pretrained network that goes on learning, and a linear layer to the memory's size."""

    def __init__(
        self,
        backbone: Backbone,
        num_cells: int,
        num_features: int,
        size: int,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.into = Linear(num_features, size)
        self.places = CellPositions(num_cells, size, dropout)

    def forward(self, source: Images, *, need_weights: bool = False) -> Encoded:
        """Of what the network's own layers looked at nothing is told."""
        del need_weights
        return self.places(self.into(self.backbone(source.values)), source.rows)


class CellEncoder(nn.Module):
    """Cells that a pretrained network made beforehand, through a linear layer."""

    def __init__(
        self, num_cells: int, num_features: int, size: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.into = Linear(num_features, size)
        self.places = CellPositions(num_cells, size, dropout)

    def forward(self, source: GridFeatures, *, need_weights: bool = False) -> Encoded:
        """Cells do not look at each other, so weights that are asked for are none."""
        del need_weights
        return self.places(self.into(source.values.to(self.into.weight.dtype)), source.rows)
