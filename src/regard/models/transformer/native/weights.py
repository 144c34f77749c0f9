"""Weights of a native decoder as structures of C++ (`regard/kernels/step.hpp`)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from regard import kernels
from regard.attention.dot.choose import dot_scale
from regard.layers.feed_forward import FeedForward
from regard.linear import Linear, panels_of, plain_weight
from regard.models.transformer.decoder import TransformerDecoder
from regard.panels import Panels, PanelsStructure, check_array
from regard.shapes import Float, Tensor


class _Arrays(list[Tensor]):
    """Arrays that structures refer to. A parameter that is replaced later stays here, so that its
    memory is not freed."""

    def add(self, name: str, parameter: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return the numbers of a parameter. ValueError if they have another shape, type or
        device."""
        check_array(name, parameter, shape)
        self.append(kernels.dense(parameter.detach()))
        return self[-1]


@kernels.structure("Norm")
class Norm(ctypes.Structure):
    """`Norm` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "bias")),
        ("epsilon", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 2),
    ]

    @classmethod
    def of(cls, norm: nn.Module, arrays: _Arrays) -> Norm:
        """Return the structure of a layer norm, or that of the identity."""
        if not isinstance(norm, nn.LayerNorm):
            return cls()
        shape = tuple(norm.normalized_shape)
        addresses, sizes = kernels.places(
            arrays.add("weight of a layer norm", norm.weight, shape),
            arrays.add("bias of a layer norm", norm.bias, shape),
        )
        return cls(*addresses, norm.eps, sizes)


@kernels.structure("DecoderLayer")
class _Layer(ctypes.Structure):
    """`DecoderLayer` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, PanelsStructure) for name in ("projection", "self_output", "query")),
        *((name, PanelsStructure) for name in ("cross_output", "inner", "outer")),
        *((name, Norm) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
    ]


@dataclass(frozen=True)
class Weights:
    """Weights of all layers in panels, for one instruction set. `layers` and `last` refer to
    `panels` and `arrays`."""

    layers: Any
    last: Norm
    memory: Panels
    """Projections to keys and values of the source, of all layers."""
    memory_bias: Float[Tensor, "_"]
    inner: int
    scales: tuple[float, float]
    lanes: int
    panels: list[Panels]
    arrays: _Arrays

    @classmethod
    def of(cls, decoder: TransformerDecoder) -> Weights:
        layers = list(decoder.layers)
        panels: list[Panels] = []
        arrays = _Arrays()

        def packed(linear: Linear) -> PanelsStructure:
            panels.append(panels_of(linear.weight))
            if linear.bias is None:
                return panels[-1].structure(None)
            shape = (linear.out_features,)
            return panels[-1].structure(arrays.add("bias of a linear layer", linear.bias, shape))

        structures = (_Layer * len(layers))(
            *(
                _Layer(
                    packed(layer.self_attention.projection),
                    packed(layer.self_attention.heads.output),
                    packed(layer.cross_attention.query),
                    packed(layer.cross_attention.heads.output),
                    packed(cast(FeedForward, layer.feed_forward).inner),
                    packed(cast(FeedForward, layer.feed_forward).outer),
                    Norm.of(layer.self_residual.norm, arrays),
                    Norm.of(layer.cross_residual.norm, arrays),
                    Norm.of(layer.feed_forward_residual.norm, arrays),
                )
                for layer in layers
            )
        )
        attention = [layer.cross_attention for layer in layers]
        parts = [part for each in attention for part in (each.key, each.value)]
        memory = Panels.of(torch.cat([plain_weight(part.weight) for part in parts]))
        memory_bias = torch.cat([_bias(part) for part in parts])
        first = layers[0]
        size = first.self_attention.projection.in_features // first.self_attention.heads.num_heads
        scales = tuple(
            cast(float, dot_scale(heads.attention.score, heads.attention.normaliser, size))
            for heads in (first.self_attention.heads, first.cross_attention.heads)
        )
        inner = cast(FeedForward, first.feed_forward).inner.out_features
        last, lanes = Norm.of(decoder.norm, arrays), kernels.lanes()
        return cls(
            structures, last, memory, memory_bias, inner, cast(Any, scales), lanes, panels, arrays
        )


def _bias(linear: nn.Linear) -> Tensor:
    """Return the bias of a layer; zeros for a layer without one."""
    if linear.bias is not None:
        return linear.bias.detach()
    return torch.zeros(linear.out_features, dtype=torch.float32, device="cpu")
