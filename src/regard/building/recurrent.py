"""Recurrent encoders and decoders from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.attention import build_attention, build_decoder_attention
from regard.building.built_encoder import BuiltEncoder
from regard.building.experts import build_experts_between_layers
from regard.building.memories import context_size, key_size, value_size
from regard.config import RecurrentDecoderConfig, RecurrentEncoderConfig
from regard.config.checks import require_resolved
from regard.errors import UserError
from regard.layers.recurrent.fast_forward_stack import FastForwardStack
from regard.layers.recurrent.residual_stack import FIRST_RESIDUAL, ResidualStack
from regard.layers.recurrent.stack import RecurrentStack, Stack
from regard.models.recurrent import decoders
from regard.models.recurrent.attention import (
    CrossAttention,
    DecoderAttention,
    GatedAttention,
    IntraDecoderAttention,
    ParallelAttention,
)
from regard.models.recurrent.bridge import Bridge, CopyBridge, LinearBridge, ZeroBridge
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.recurrent.feeding import AttentionalFeeding, ContextFeeding, Feeding, NoFeeding
from regard.models.recurrent.gnmt import GNMTDecoder
from regard.models.recurrent.output import (
    DeepOutput,
    LinearOutput,
    Output,
    StateOutput,
    SummedOutput,
    TanhOutput,
)
from regard.models.recurrent.parts import DecoderParts
from regard.models.recurrent.queries import (
    InputQuery,
    LastTwoQuery,
    LearnedQuery,
    Query,
    SamePositionQuery,
    StateQuery,
)

SECTION = "model.decoder.attention"


def build_recurrent_encoder(
    config: RecurrentEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
    """Build an encoder of tokens or numbers on this embedding."""
    input_size, size = require_resolved(config.embedding), require_resolved(config.size)
    dropout, layers = require_resolved(config.dropout), config.layers
    sizes, num_summary_layers = (input_size, *[size] * layers), layers
    match config.connections:
        case "none":
            stack: Stack = RecurrentStack(
                config.cell,
                input_size,
                size // 2 if config.bidirectional else size,
                layers,
                dropout=dropout,
                bidirectional=config.bidirectional,
            )
        case "residual":
            residual = ResidualStack(
                config.cell,
                input_size,
                size,
                layers,
                bidirectional=config.bidirectional,
                dropout=dropout,
            )
            if config.bidirectional:
                sizes = (input_size, 2 * size, *[size] * (layers - 1))
                num_summary_layers = layers - 1
            residual.experts = build_experts_between_layers(config.experts, sizes[-2])
            stack = residual
        case "fast_forward":
            stack = FastForwardStack(
                config.cell,
                input_size,
                size // 2 if config.bidirectional else size,
                layers,
                bidirectional=config.bidirectional,
                dropout=dropout,
            )
    encoder = RecurrentEncoder(embedding, stack, dropout=dropout)
    return BuiltEncoder(encoder, sizes, num_summary_layers)


def build_recurrent_decoder(
    config: RecurrentDecoderConfig, encoder: BuiltEncoder, embedding: nn.Embedding
) -> decoders.RecurrentDecoder:
    """Build a decoder for this encoder's states, on this embedding."""
    bridge = _build_bridge(config, encoder)
    output = _build_output(config, encoder)
    attention = _build_attention(config, encoder)
    feeding = _build_feeding(config, encoder, output)
    stack = _build_stack(config, encoder, feeding)
    parts = DecoderParts(embedding, stack, bridge, output, dropout=require_resolved(config.dropout))
    if attention is None:
        return decoders.PlainDecoder(parts)
    if config.wiring == "bahdanau":
        return decoders.BahdanauDecoder(parts, attention)
    if config.wiring == "gnmt":
        return GNMTDecoder(parts, attention)
    return decoders.LuongDecoder(parts, attention, feeding)


def _build_attention(
    config: RecurrentDecoderConfig, encoder: BuiltEncoder
) -> DecoderAttention | None:
    """Build attention to the source, and to each memory besides it. None for a decoder without
    attention."""
    if not config.attends:
        return None
    size, plain = require_resolved(config.size), config.attention.plain()
    query = _build_query(config, encoder)
    attends = build_decoder_attention(
        config.attention, query.size, key_size(config, encoder), SECTION
    )
    attention: DecoderAttention = CrossAttention(query, attends, encoder.attention_kind)
    if config.gate:
        attention = GatedAttention(attention, size)
    attentions = [attention]
    besides = [value_size(config, encoder)] if config.memory_vectors else []
    besides += [config.extra_vectors_shape[1]] if config.extra_vectors_shape is not None else []
    for vector_size in besides:
        attentions.append(
            CrossAttention(
                StateQuery(size), build_attention(plain, size, vector_size, SECTION), "memory"
            )
        )
    if config.intra_attention:
        attentions.append(IntraDecoderAttention(build_attention(plain, size, size, SECTION), size))
    return attentions[0] if len(attentions) == 1 else ParallelAttention(attentions)


def _build_query(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> Query:
    size = require_resolved(config.size)
    match config.query:
        case "state":
            return StateQuery(size)
        case "first_layer":
            return StateQuery(size, layer=0)
        case "input":
            return InputQuery(require_resolved(config.embedding))
        case "last_two":
            return LastTwoQuery(size)
        case "same_position":
            return SamePositionQuery(value_size(config, encoder))
        case "learned":
            return LearnedQuery(size)


def _build_bridge(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> Bridge:
    size, num_layers = require_resolved(config.size), encoder.num_summary_layers or 1
    with_cell = config.cell == "lstm"
    match config.bridge:
        case "copy":
            if (num_layers, encoder.size) != (config.layers, size):
                raise UserError(
                    "model.decoder.bridge is copy, which needs a first state of the decoder's "
                    f"shape, but the encoder gives {num_layers} x {encoder.size} numbers and the "
                    f"decoder has {config.layers} x {size} (layers x size): set "
                    "model.decoder.bridge to linear, or make the shapes equal"
                )
            return CopyBridge(with_cell=with_cell)
        case "linear":
            return LinearBridge(num_layers * encoder.size, config.layers, size, with_cell=with_cell)
        case "zero":
            return ZeroBridge(config.layers, size, with_cell=with_cell)


def _build_output(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> Output:
    size, context = require_resolved(config.size), context_size(config, encoder)
    match config.output:
        case "linear":
            return LinearOutput(size, context)
        case "state":
            return StateOutput(size)
        case "tanh":
            return TanhOutput(size, context, size)
        case "deep":
            return DeepOutput(size, context, require_resolved(config.embedding), size)
        case "summed":
            return SummedOutput(size, context, require_resolved(config.embedding))


def _input_size(config: RecurrentDecoderConfig, encoder: BuiltEncoder, feeding: Feeding) -> int:
    """Size of the vector that the recurrent layers read in a step."""
    attends_first = config.wiring in ("bahdanau", "gnmt")
    context = context_size(config, encoder) if attends_first else feeding.size
    return require_resolved(config.embedding) + context


def _build_stack(config: RecurrentDecoderConfig, encoder: BuiltEncoder, feeding: Feeding) -> Stack:
    stack_type: type[RecurrentStack | ResidualStack | FastForwardStack] = RecurrentStack
    size, has_experts = require_resolved(config.size), config.experts.number > 0
    if config.connections == "residual" and (config.layers > FIRST_RESIDUAL or has_experts):
        stack_type = ResidualStack
    if config.connections == "fast_forward" and config.layers > 1:
        stack_type = FastForwardStack
    stack = stack_type(
        config.cell,
        _input_size(config, encoder, feeding),
        size,
        config.layers,
        shared_size=context_size(config, encoder) if config.wiring == "gnmt" else 0,
        dropout=require_resolved(config.dropout),
    )
    if isinstance(stack, ResidualStack):
        stack.experts = build_experts_between_layers(config.experts, size)
    return stack


def _build_feeding(
    config: RecurrentDecoderConfig, encoder: BuiltEncoder, output: Output
) -> Feeding:
    match config.feeding:
        case "none":
            return NoFeeding()
        case "context":
            return ContextFeeding(context_size(config, encoder))
        case "attentional":
            return AttentionalFeeding(output.feature_size)
