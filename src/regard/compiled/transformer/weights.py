"""Weights of a native encoder or decoder as structures of C++ (`encoder.hpp` and `step.hpp` in
`regard/kernels/models/`)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from regard import kernels
from regard.attention.multihead import Heads
from regard.compiled.attention.dot.choose import dot_scale
from regard.compiled.native import DecoderStructures, ReferencedArrays, Structures, packed_layer
from regard.layers.feed_forward import FeedForward
from regard.models.transformer.decoder import TransformerDecoder
from regard.models.transformer.encoder import TransformerEncoder
from regard.numerics.linear import stacked_panels
from regard.numerics.panels import PackedMatrix, PanelsStructure
from regard.shapes import Float, Tensor


@kernels.structure("Norm")
class Norm(ctypes.Structure):
    """`Norm` of regard/kernels/models/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "bias")),
        ("epsilon", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 2),
    ]


@kernels.structure("EncoderLayer")
class _EncoderLayer(ctypes.Structure):
    """`EncoderLayer` of regard/kernels/models/encoder.hpp."""

    _fields_ = [
        *((name, PanelsStructure) for name in ("projection", "output", "inner", "outer")),
        *((name, Norm) for name in ("self_norm", "feed_forward_norm")),
    ]


@kernels.structure("DecoderLayer")
class _DecoderLayer(ctypes.Structure):
    """`DecoderLayer` of regard/kernels/models/step.hpp."""

    _fields_ = [
        *((name, PanelsStructure) for name in ("projection", "self_output", "query")),
        *((name, PanelsStructure) for name in ("cross_output", "inner", "outer")),
        *((name, Norm) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
    ]


@dataclass(frozen=True)
class EncoderWeights(Structures):
    """Weights of an encoder in panels."""

    last: Norm
    num_heads: int
    inner: int
    scale: float

    @classmethod
    def of(cls, encoder: TransformerEncoder) -> EncoderWeights:
        layers, arrays = list(encoder.layers), ReferencedArrays()
        structures = (_EncoderLayer * len(layers))(
            *(
                _EncoderLayer(
                    arrays.linear(layer.self_attention.projection),
                    arrays.linear(layer.self_attention.heads.output),
                    arrays.linear(cast(FeedForward, layer.feed_forward).inner),
                    arrays.linear(cast(FeedForward, layer.feed_forward).outer),
                    _norm(arrays, layer.self_residual.norm),
                    _norm(arrays, layer.feed_forward_residual.norm),
                )
                for layer in layers
            )
        )
        heads = layers[0].self_attention.heads
        inner = cast(FeedForward, layers[0].feed_forward).inner.out_features
        last = _norm(arrays, encoder.norm)
        return cls(structures, arrays, last, heads.num_heads, inner, _scale(heads))


@dataclass(frozen=True)
class DecoderWeights(DecoderStructures):
    """Weights of a decoder in panels."""

    last: Norm
    memory: PackedMatrix
    """Projections to keys and values of the source, of all layers."""
    memory_bias: Float[Tensor, "_"]
    inner: int
    scales: tuple[float, float]

    @classmethod
    def of(cls, decoder: TransformerDecoder) -> DecoderWeights:
        layers, arrays = list(decoder.layers), ReferencedArrays()
        structures = (_DecoderLayer * len(layers))(
            *(
                _DecoderLayer(
                    arrays.linear(layer.self_attention.projection),
                    arrays.linear(layer.self_attention.heads.output),
                    arrays.linear(layer.cross_attention.query),
                    arrays.linear(layer.cross_attention.heads.output),
                    arrays.linear(cast(FeedForward, layer.feed_forward).inner),
                    arrays.linear(cast(FeedForward, layer.feed_forward).outer),
                    _norm(arrays, layer.self_residual.norm),
                    _norm(arrays, layer.cross_residual.norm),
                    _norm(arrays, layer.feed_forward_residual.norm),
                )
                for layer in layers
            )
        )
        attention = [layer.cross_attention for layer in layers]
        projections = [part for cross in attention for part in (cross.key, cross.value)]
        memory = stacked_panels([part.weight for part in projections])
        memory_bias = torch.cat([_bias(part) for part in projections])
        heads = layers[0].self_attention.heads, layers[0].cross_attention.heads
        inner = cast(FeedForward, layers[0].feed_forward).inner.out_features
        last, output = _norm(arrays, decoder.norm), packed_layer(decoder.projection)
        scales = _scale(heads[0]), _scale(heads[1])
        return cls(structures, arrays, output, last, memory, memory_bias, inner, scales)


def _norm(arrays: ReferencedArrays, norm: nn.Module) -> Norm:
    """Return the structure of a layer norm, or that of the identity."""
    if not isinstance(norm, nn.LayerNorm):
        return Norm()
    shape = tuple(norm.normalized_shape)
    addresses, sizes = kernels.places(
        arrays.array("weight of a layer norm", norm.weight, shape),
        arrays.array("bias of a layer norm", norm.bias, shape),
    )
    return Norm(*addresses, norm.eps, sizes)


def _scale(heads: Heads) -> float:
    """Return the factor of the products of queries and keys."""
    attention, size = heads.attention, heads.output.in_features // heads.num_heads
    return cast(float, dot_scale(attention.score, attention.normaliser, size))


def _bias(linear: nn.Linear) -> Tensor:
    """Return the bias of a layer; zeros for a layer without one."""
    if linear.bias is not None:
        return linear.bias.detach()
    return torch.zeros(linear.out_features, dtype=torch.float32, device="cpu")
