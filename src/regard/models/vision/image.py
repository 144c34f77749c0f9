"""Image encoders: images as memories of grid cells, for caption decoders (Xu et al. 2015).

    image --convolution, or a pretrained network--> grid of cells --row by row--> memory
    summary: the mean of the cells, from which a recurrent decoder starts (section 3.1.2)

A learned position vector is added to every cell, as its features do not depend on its position.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.data.batch import GridFeatures, Images
from regard.layers.convolution import ConvolutionStack
from regard.layers.dropout import Dropout
from regard.models.contracts import Encoded, Summary
from regard.models.vision.backbone import Backbone
from regard.numerics.linear import Linear
from regard.shapes import Float, Int, Tensor


class CellPositions(nn.Module):
    """Learned positions of grid cells. Builds the encoder output, one row for each caption."""

    def __init__(self, num_cells: int, size: int, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(num_cells, size).normal_(std=0.02))
        self.dropout = Dropout(dropout)

    def forward(
        self, cells: Float[Tensor, "image cell size"], rows: Int[Tensor, "batch"] | None
    ) -> Encoded:
        """Return the cells with positions, and their mean as a summary of one layer. `rows` maps
        each row of the batch to its image. ValueError for another number of cells than that of the
        positions."""
        if cells.size(1) != len(self.vectors):
            raise ValueError(
                f"images: expected {len(self.vectors)} cells each, got {cells.size(1)}; resize the "
                "images to the size of this model"
            )
        cells = cells + self.vectors
        cells = self.dropout(cells if rows is None else cells[rows])
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        # Xu et al. 2015, section 3.1.2: (1 / L) sum_i a_i, for the first state of the decoder
        return Encoded((cells,), mask, Summary(cells.mean(dim=1)[:, None]))


class ConvolutionalEncoder(nn.Module):
    """Small convolutional network, newly initialised."""

    varies_in_batches = True

    def __init__(self, stack: ConvolutionStack, num_cells: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.stack = stack
        self.positions = CellPositions(num_cells, stack.size, dropout)

    def forward(self, source: Images, *, need_weights: bool = False) -> Encoded:
        """Encode a batch. There is no attention, so `need_weights` has no effect."""
        del need_weights
        grid = self.stack(self._scaled(source))
        return self.positions(grid.flatten(2).mT, source.rows)

    def compute_blocks(
        self, source: Images
    ) -> tuple[Float[Tensor, "image channel row column"], ...]:
        """Return the output of every block of the network: the feature maps of each image."""
        return self.stack.compute_blocks(self._scaled(source))

    def _scaled(self, source: Images) -> Float[Tensor, "image channel height width"]:
        scaled = source.values.float() / 127.5 - 1
        return scaled.to(self.positions.vectors.dtype)


class FineTunedBackboneEncoder(nn.Module):
    """Pretrained network that is trained further, then a linear layer to the size of the memory."""

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
        self.projection = Linear(num_features, size)
        self.positions = CellPositions(num_cells, size, dropout)

    def forward(self, source: Images, *, need_weights: bool = False) -> Encoded:
        """Encode a batch. The backbone's internal attention is not returned."""
        del need_weights
        return self.positions(self.projection(self.backbone(source.values)), source.rows)


class FrozenBackboneEncoder(nn.Module):
    """Linear layer over grid features that a pretrained network, which is not trained further,
    computed in advance."""

    def __init__(
        self, num_cells: int, num_features: int, size: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.projection = Linear(num_features, size)
        self.positions = CellPositions(num_cells, size, dropout)

    def forward(self, source: GridFeatures, *, need_weights: bool = False) -> Encoded:
        """Encode a batch. There is no attention, so `need_weights` has no effect."""
        del need_weights
        return self.positions(
            self.projection(source.values.to(self.projection.weight.dtype)), source.rows
        )
