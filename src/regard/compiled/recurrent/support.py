"""Which recurrent decoders have kernels for all of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from torch import nn

from regard.attention import Attention, Softmax
from regard.attention.scores import ADDITIVE_SCORES
from regard.compiled.attention.dot.choose import DOT_SCORES
from regard.compiled.exact import are_unchanged, is_exactly, kind_of
from regard.compiled.recurrent.stacks import is_exact
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.recurrent.attention import CrossAttention
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.models.recurrent.feeding import AttentionalFeeding, ContextFeeding, Feeding, NoFeeding
from regard.models.recurrent.output import (
    DeepOutput,
    LinearOutput,
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


def is_supported(decoder: BahdanauDecoder | LuongDecoder) -> bool:
    """Whether the kernels compute what every part of a decoder computes."""
    return (
        is_exactly(decoder, BahdanauDecoder, LuongDecoder)
        and are_unchanged(decoder)
        and all(kind_of(part) in types for part, types in _parts(decoder))
        and _has_supported_sizes(decoder.parts.embedding, decoder.parts.stack, decoder.attention)
    )


def feeding_of(decoder: BahdanauDecoder | LuongDecoder) -> Feeding:
    """Return what a step feeds to the next one besides its states."""
    return decoder.feeding if isinstance(decoder, LuongDecoder) else NoFeeding()


def _parts(decoder: BahdanauDecoder | LuongDecoder) -> Iterator[tuple[object, tuple[type, ...]]]:
    """Iterate over the parts of a decoder, with the classes that the kernels compute."""
    parts, cross = decoder.parts, decoder.attention
    yield feeding_of(decoder), FEEDINGS
    yield parts, (DecoderParts,)
    yield parts.embedding, (nn.Embedding,)
    yield parts.dropout, (Dropout,)
    yield parts.stack, (RecurrentStack,)
    yield cast(RecurrentStack, parts.stack).dropout, (Dropout,)
    yield parts.output, OUTPUTS
    if not isinstance(parts.output, StateOutput | LinearOutput):
        yield getattr(parts.output, "projection", None), (Linear,)
    yield parts.projection, (Linear,)
    yield cross, (CrossAttention,)
    yield getattr(cross, "query", None), (StateQuery,)
    attention: Any = getattr(cross, "attention", None)
    yield attention, (Attention,)
    yield attention.score, (*DOT_SCORES, *ADDITIVE_SCORES)
    yield attention.normaliser, (Softmax,)
    yield attention.dropout, (nn.Dropout,)


def _has_supported_sizes(embedding: nn.Embedding, stack: Any, cross: Any) -> bool:
    """Whether the embedding returns its rows unchanged, the layers have one size and no further
    inputs, and the query is the state of one of them."""
    return (
        embedding.max_norm is None
        and is_exact(stack)
        and stack.size == stack.hidden_size
        and not stack.shared_size
        and -stack.num_layers <= cross.query.layer < stack.num_layers
    )
