"""Convolution over images, with the same small filters at every position.

out[o, y, x] = b_o + sum over i, dy, dx of W[o, i, dy, dx] in[i, y s + dy - p, x s + dx - p]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from torch import nn

from regard.shapes import Float, Tensor


class ConvolutionBlock(nn.Module):
    """Two convolutions of 3 x 3 with batch normalisation (Ioffe and Szegedy 2015) and ReLU. The
    first one halves the sides of the image. Small filters follow VGG (Simonyan and Zisserman 2015);
    strides replace its pooling."""

    def __init__(self, from_channels: int, to_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(from_channels, to_channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(to_channels),
            nn.ReLU(),
            nn.Conv2d(to_channels, to_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(to_channels),
            nn.ReLU(),
        )

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channels heights widths"]:
        return self.layers(images)


class ConvolutionStack(nn.Module):
    """Sequence of blocks. Each of them halves the sides of the image."""

    def __init__(self, channels: Sequence[int]) -> None:
        """`channels` has the number of output channels of each block. Images have three."""
        super().__init__()
        sizes = [3, *channels]
        self.blocks = nn.Sequential(
            *(ConvolutionBlock(inputs, outputs) for inputs, outputs in pairwise(sizes))
        )
        self.size = sizes[-1]

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        return self.blocks(images)

    def compute_blocks(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch channels rows columns"], ...]:
        """Return the output of every block: the feature maps of the images."""
        outputs = accumulate(self.blocks, lambda states, block: block(states), initial=images)
        return tuple(outputs)[1:]

    @property
    def filters(self) -> Float[Tensor, "channels channel height width"]:
        """Filters of the first convolution, which reads the colours of the image."""
        weight: Tensor = next(self.blocks[0].parameters())
        return weight
