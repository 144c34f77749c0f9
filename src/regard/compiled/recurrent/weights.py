"""Weights of a native recurrent decoder as structures of C++
(`regard/kernels/models/recurrent_step.hpp`)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import cast

from torch import nn

from regard import kernels
from regard.attention import Attention
from regard.compiled.attention.attend import additive_score
from regard.compiled.attention.dot.choose import dot_scale
from regard.compiled.native import DecoderStructures, ReferencedArrays, packed_layer
from regard.compiled.recurrent.native_cells import KINDS
from regard.compiled.recurrent.support import FEEDINGS, OUTPUTS, feeding_of
from regard.layers.recurrent.layers import step_weights
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.recurrent.attention import CrossAttention
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.models.recurrent.queries import StateQuery
from regard.numerics.panels import PanelsStructure
from regard.shapes import Float, Tensor


@kernels.structure("RecurrentLayer")
class _Layer(ctypes.Structure):
    """`RecurrentLayer` of regard/kernels/models/recurrent_step.hpp."""

    _fields_ = [(name, PanelsStructure) for name in ("input", "recurrent")]


@dataclass(frozen=True)
class Weights(DecoderStructures):
    """Weights of a decoder in panels."""

    query: PanelsStructure
    """Projection of queries of an additive score."""
    combined: PanelsStructure
    """Projection of the output layer, if it has one."""
    vector: Float[Tensor, "key"] | None
    embeddings: Float[Tensor, "word embedding"]
    settings: tuple[int, ...]
    """Fields of a step from `kind` to `is_additive`."""
    key_size: int
    scale: float

    @classmethod
    def of(cls, decoder: BahdanauDecoder | LuongDecoder) -> Weights:
        parts, arrays = decoder.parts, ReferencedArrays()
        stack = cast(RecurrentStack, parts.stack)
        layers = (_Layer * stack.num_layers)()
        for place, layer in enumerate(stack.layers):
            weight, bias, recurrent, shift = step_weights(layer)
            layers[place] = _Layer(arrays.matrix(weight, bias), arrays.matrix(recurrent, shift))
        cross = cast(CrossAttention, decoder.attention)
        attention = cast(Attention, cross.attention)
        query, vector, key_size = PanelsStructure(), None, stack.hidden_size
        additive = additive_score(attention)
        if additive is None:
            scale = dot_scale(attention.score, attention.normaliser, key_size)
        else:
            score, scale = additive
            query, key_size = arrays.matrix(score.query_weight), len(score.vector)
            vector = arrays.array("vector of the score", score.vector, (key_size,))
        settings = (
            KINDS[stack.kind],
            isinstance(decoder, BahdanauDecoder),
            cast(StateQuery, cross.query).layer % stack.num_layers,
            OUTPUTS.index(type(parts.output)),
            FEEDINGS.index(type(feeding_of(decoder))),
            vector is not None,
        )
        projection = getattr(parts.output, "projection", None)
        combined = PanelsStructure()
        if isinstance(projection, nn.Linear):
            combined = arrays.linear(projection)
        words = parts.embedding.num_embeddings, parts.embedding.embedding_dim
        return cls(
            layers,
            arrays,
            packed_layer(parts.projection),
            query,
            combined,
            vector,
            arrays.array("embeddings", parts.embedding.weight, words),
            settings,
            key_size,
            cast(float, scale),
        )
