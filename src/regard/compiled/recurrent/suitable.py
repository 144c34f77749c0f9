"""Which recurrent decoders have kernels for all of their parts."""

from __future__ import annotations

from typing import cast

from torch import nn

from regard.attention import Attention, Softmax
from regard.attention.dot.choose import DOT_SCORES
from regard.attention.scores import ADDITIVE_SCORES
from regard.fast_path import are_unchanged, is_exactly
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.recurrent.attention import CrossAttention, DecoderAttention
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.models.recurrent.feeding import AttentionalFeeding, ContextFeeding, Feeding, NoFeeding
from regard.models.recurrent.output import (
    DeepOutput,
    LinearOutput,
    Output,
    StateOutput,
    SummedOutput,
    TanhOutput,
)
from regard.models.recurrent.parts import DecoderParts
from regard.models.recurrent.queries import StateQuery
from regard.numerics.linear import Linear

FEEDINGS = (NoFeeding, ContextFeeding, AttentionalFeeding)
"""Feedings in the order of `Fed` of regard/kernels/models/recurrent_step.hpp."""
OUTPUTS = (StateOutput, LinearOutput, TanhOutput, DeepOutput, SummedOutput)
"""Output layers in the order of `Output` of regard/kernels/models/recurrent_step.hpp."""


def has_kernels(decoder: BahdanauDecoder | LuongDecoder) -> bool:
    """Whether the kernels compute what every part of a decoder computes."""
    return (
        is_exactly(decoder, BahdanauDecoder, LuongDecoder)
        and are_unchanged(decoder)
        and type(feeding_of(decoder)) in FEEDINGS
        and _have_kernels(decoder.parts)
        and _has_kernel(decoder.attention, cast(RecurrentStack, decoder.parts.stack).num_layers)
    )


def feeding_of(decoder: BahdanauDecoder | LuongDecoder) -> Feeding:
    """Return what a step feeds to the next one besides its states."""
    return decoder.feeding if isinstance(decoder, LuongDecoder) else NoFeeding()


def _have_kernels(parts: DecoderParts) -> bool:
    stack, embedding = parts.stack, parts.embedding
    return (
        type(parts) is DecoderParts
        and type(embedding) is nn.Embedding
        and embedding.max_norm is None
        and type(parts.dropout) is Dropout
        and type(parts.projection) is Linear
        and type(stack) is RecurrentStack
        and type(stack.dropout) is Dropout
        and stack.is_exact()
        and stack.size == stack.hidden_size
        and not stack.beside_size
        and _is_output(parts.output)
    )


def _is_output(output: Output) -> bool:
    if type(output) in (StateOutput, LinearOutput):
        return True
    return type(output) in OUTPUTS and type(getattr(output, "projection", None)) is Linear


def _has_kernel(cross: DecoderAttention, num_layers: int) -> bool:
    """Whether attention is global, with softmax, to one memory, queried by a layer's state."""
    if type(cross) is not CrossAttention or type(cross.attention) is not Attention:
        return False
    attention, query = cross.attention, cross.query
    return (
        type(query) is StateQuery
        and -num_layers <= query.layer < num_layers
        and type(attention.score) in (*DOT_SCORES, *ADDITIVE_SCORES)
        and type(attention.normaliser) is Softmax
        and type(attention.dropout) is nn.Dropout
    )
