"""Layers with weight normalisation as plain layers, for inference."""

from __future__ import annotations

import torch
from torch import nn

from regard.layers.weight_norm import NormalisedLinear
from regard.numerics.linear import Linear


def without_normalisation(normalised: NormalisedLinear) -> Linear:
    """Return a plain layer with the present weight and bias."""
    out_features, in_features = normalised.direction.shape
    like = {"dtype": normalised.bias.dtype, "device": normalised.bias.device}
    layer = nn.utils.skip_init(Linear, in_features, out_features, **like)
    with torch.no_grad():
        layer.weight.copy_(normalised.weight)
        layer.bias.copy_(normalised.bias)
    return layer


REPLACEMENTS = {NormalisedLinear: without_normalisation}
