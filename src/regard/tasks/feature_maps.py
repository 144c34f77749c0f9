"""Feature maps: the outputs of every layer of an encoder for one source."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import nn

from regard.models.contracts import Encoder
from regard.models.convolution.gated_convolution import GatedConvolutionEncoder
from regard.models.vision.image import ConvolutionalEncoder
from regard.shapes import Float, Tensor
from regard.trace import TokenSequence
from regard.viewing.feature_maps import FeatureMap, FeatureMaps

OUTPUT = "output"
"""Name of the linear layer above the convolutions of ConvS2S."""


@torch.inference_mode()
def text_feature_maps(encoder: Encoder, source: Any, sequence: TokenSequence) -> FeatureMaps:
    """Return the embeddings and the states of all layers for an encoded text or series, a batch of
    size 1. `sequence` has its pieces."""
    encoded = encoder(source.to(_device(encoder)))
    names = ["embeddings", *(f"layer {number}" for number in range(1, len(encoded.layers)))]
    if isinstance(encoder, GatedConvolutionEncoder):
        names[-1] = OUTPUT
    layers = (
        FeatureMap(name, _array(states[0].mT))
        for name, states in zip(names, encoded.layers, strict=True)
    )
    return FeatureMaps(tuple(layers), sequence.labels, sequence.language)


@torch.inference_mode()
def image_feature_maps(encoder: Encoder, source: Any) -> FeatureMaps:
    """Return the outputs of all blocks of a convolutional encoder for an encoded image, a batch of
    size 1, with the filters of the first convolution. Other encoders have the cells of the grid
    alone."""
    source = source.to(_device(encoder))
    if isinstance(encoder, ConvolutionalEncoder):
        blocks = encoder.compute_blocks(source)
        layers = (
            FeatureMap(f"block {number}", _array(states[0]))
            for number, states in enumerate(blocks, start=1)
        )
        return FeatureMaps(tuple(layers), filters=_array(encoder.stack.filters))
    cells = encoder(source).layers[-1][0]
    side = math.isqrt(len(cells))
    grid = cells.mT.unflatten(1, (side, len(cells) // side))
    return FeatureMaps((FeatureMap("cells", _array(grid)),))


def _device(encoder: Encoder) -> torch.device:
    return next(cast(nn.Module, encoder).parameters()).device


def _array(numbers: Float[Tensor, "*_"]) -> Any:
    return numbers.float().cpu().numpy()
