"""Convolution over pictures: what is seen through a small window, everywhere alike.

out[o, y, x] = b_o + sum over i, dy, dx of W[o, i, dy, dx] in[i, y s + dy - p, x s + dx - p]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from regard.shapes import Float, Tensor


class ConvolutionBlock(nn.Module):
    """Two convolutions of three by three with batch normalisation (Ioffe and Szegedy 2015) and
    relu, the first of which halves the picture: VGG's rule of small filters (Simonyan and Zisserman
    2015), with strides instead of pooling."""

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
        self, pictures: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channels heights widths"]:
        return self.layers(pictures)


class ConvolutionStack(nn.Module):
    """Blocks one after the other; each halves the picture's sides."""

    def __init__(self, channels: Sequence[int]) -> None:
        """`channels` of every block's result; pictures come with three."""
        super().__init__()
        sizes = [3, *channels]
        self.blocks = nn.Sequential(
            *(ConvolutionBlock(before, after) for before, after in pairwise(sizes))
        )
        self.size = sizes[-1]

    def forward(
        self, pictures: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        return self.blocks(pictures)
