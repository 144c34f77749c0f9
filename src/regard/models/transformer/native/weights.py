"""Weights of a native encoder or decoder as structures of C++ (`regard/kernels/encoder.hpp` and
`step.hpp`)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from regard import kernels
from regard.attention.dot.choose import dot_scale
from regard.attention.multihead import Heads
from regard.layers.feed_forward import FeedForward
from regard.linear import Linear, panels_of, stacked_panels
from regard.models.transformer.decoder import TransformerDecoder
from regard.models.transformer.encoder import TransformerEncoder
from regard.panels import PackedMatrix, PanelsStructure, check_array
from regard.shapes import Float, Tensor


@kernels.structure("Norm")
class Norm(ctypes.Structure):
    """`Norm` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "bias")),
        ("epsilon", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 2),
    ]


@kernels.structure("EncoderLayer")
class _EncoderLayer(ctypes.Structure):
    """`EncoderLayer` of regard/kernels/encoder.hpp."""

    _fields_ = [
        *((name, PanelsStructure) for name in ("projection", "output", "inner", "outer")),
        *((name, Norm) for name in ("self_norm", "feed_forward_norm")),
    ]


@kernels.structure("DecoderLayer")
class _DecoderLayer(ctypes.Structure):
    """`DecoderLayer` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, PanelsStructure) for name in ("projection", "self_output", "query")),
        *((name, PanelsStructure) for name in ("cross_output", "inner", "outer")),
        *((name, Norm) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
    ]


class _Parts:
    """Panels and arrays that structures refer to. A parameter that is replaced later stays here, so
    that its memory is not freed."""

    def __init__(self) -> None:
        self.panels: list[PackedMatrix] = []
        self.arrays: list[Tensor] = []

    def array(self, name: str, parameter: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return the numbers of a parameter. ValueError if they have another shape, type or
        device."""
        check_array(name, parameter, shape)
        self.arrays.append(kernels.dense(parameter.detach()))
        return self.arrays[-1]

    def linear(self, linear: Linear) -> PanelsStructure:
        """Return the structure of a linear layer."""
        self.panels.append(panels_of(linear.weight))
        if linear.bias is None:
            return self.panels[-1].structure(None)
        bias = self.array("bias of a linear layer", linear.bias, (linear.out_features,))
        return self.panels[-1].structure(bias)

    def norm(self, norm: nn.Module) -> Norm:
        """Return the structure of a layer norm, or that of the identity."""
        if not isinstance(norm, nn.LayerNorm):
            return Norm()
        shape = tuple(norm.normalized_shape)
        addresses, sizes = kernels.places(
            self.array("weight of a layer norm", norm.weight, shape),
            self.array("bias of a layer norm", norm.bias, shape),
        )
        return Norm(*addresses, norm.eps, sizes)


@dataclass(frozen=True)
class EncoderWeights:
    """Weights of all layers of an encoder in panels, for one instruction set. `layers` and `last`
    refer to `parts`."""

    layers: Any
    last: Norm
    num_heads: int
    inner: int
    scale: float
    lanes: int
    parts: _Parts

    @classmethod
    def of(cls, encoder: TransformerEncoder) -> EncoderWeights:
        layers, parts = list(encoder.layers), _Parts()
        structures = (_EncoderLayer * len(layers))(
            *(
                _EncoderLayer(
                    parts.linear(layer.self_attention.projection),
                    parts.linear(layer.self_attention.heads.output),
                    parts.linear(cast(FeedForward, layer.feed_forward).inner),
                    parts.linear(cast(FeedForward, layer.feed_forward).outer),
                    parts.norm(layer.self_residual.norm),
                    parts.norm(layer.feed_forward_residual.norm),
                )
                for layer in layers
            )
        )
        heads = layers[0].self_attention.heads
        inner = cast(FeedForward, layers[0].feed_forward).inner.out_features
        last, lanes = parts.norm(encoder.norm), kernels.lanes()
        return cls(structures, last, heads.num_heads, inner, _scale(heads), lanes, parts)


@dataclass(frozen=True)
class DecoderWeights:
    """Weights of all layers of a decoder in panels, for one instruction set. `layers` and `last`
    refer to `parts`."""

    layers: Any
    last: Norm
    memory: PackedMatrix
    """Projections to keys and values of the source, of all layers."""
    memory_bias: Float[Tensor, "_"]
    inner: int
    scales: tuple[float, float]
    lanes: int
    parts: _Parts

    @classmethod
    def of(cls, decoder: TransformerDecoder) -> DecoderWeights:
        layers, parts = list(decoder.layers), _Parts()
        structures = (_DecoderLayer * len(layers))(
            *(
                _DecoderLayer(
                    parts.linear(layer.self_attention.projection),
                    parts.linear(layer.self_attention.heads.output),
                    parts.linear(layer.cross_attention.query),
                    parts.linear(layer.cross_attention.heads.output),
                    parts.linear(cast(FeedForward, layer.feed_forward).inner),
                    parts.linear(cast(FeedForward, layer.feed_forward).outer),
                    parts.norm(layer.self_residual.norm),
                    parts.norm(layer.cross_residual.norm),
                    parts.norm(layer.feed_forward_residual.norm),
                )
                for layer in layers
            )
        )
        attention = [layer.cross_attention for layer in layers]
        projections = [part for each in attention for part in (each.key, each.value)]
        memory = stacked_panels([part.weight for part in projections])
        memory_bias = torch.cat([_bias(part) for part in projections])
        heads = layers[0].self_attention.heads, layers[0].cross_attention.heads
        inner = cast(FeedForward, layers[0].feed_forward).inner.out_features
        last, lanes = parts.norm(decoder.norm), kernels.lanes()
        scales = _scale(heads[0]), _scale(heads[1])
        return cls(structures, last, memory, memory_bias, inner, scales, lanes, parts)


def _scale(heads: Heads) -> float:
    """Return the factor of the products of queries and keys."""
    attention, size = heads.attention, heads.output.in_features // heads.num_heads
    return cast(float, dot_scale(attention.score, attention.normaliser, size))


def _bias(linear: nn.Linear) -> Tensor:
    """Return the bias of a layer; zeros for a layer without one."""
    if linear.bias is not None:
        return linear.bias.detach()
    return torch.zeros(linear.out_features, dtype=torch.float32, device="cpu")
