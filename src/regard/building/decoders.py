"""Decoders from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.convolution import (
    build_dilated_decoder,
    build_gated_decoder,
    build_gated_memory,
)
from regard.building.encoders import BuiltEncoder
from regard.building.memories import build_memories, value_size
from regard.building.recurrent import build_recurrent_decoder
from regard.building.transformer import (
    build_decoder_layer,
    build_embedder,
    build_last_norm,
    build_span,
)
from regard.config import (
    DecoderConfig,
    DilatedConvolutionDecoderConfig,
    GatedConvolutionDecoderConfig,
    RecurrentDecoderConfig,
    TransformerDecoderConfig,
)
from regard.models.contracts import TrainedDecoder
from regard.models.memory import BuildMemory, top_layer, unfolded_columns
from regard.models.penalties import AttentionPenalty, DoublyStochastic, HardReward
from regard.models.pointer_generator import PointerGenerator
from regard.models.transformer import TransformerDecoder


def build_decoder(
    config: DecoderConfig, encoder: BuiltEncoder, embedding: nn.Embedding
) -> TrainedDecoder:
    """Build a decoder for this encoder's states, on this embedding."""
    match config:
        case RecurrentDecoderConfig():
            return build_recurrent_decoder(config, encoder, embedding)
        case TransformerDecoderConfig():
            return TransformerDecoder(
                build_embedder(config, embedding),
                [build_decoder_layer(config, encoder.size) for _ in range(config.layers)],
                build_last_norm(config),
                encoder.attention_kind,
                build_span(config),
            )
        case GatedConvolutionDecoderConfig():
            return build_gated_decoder(config, encoder.size, encoder.attention_kind, embedding)
        case DilatedConvolutionDecoderConfig():
            return build_dilated_decoder(config, encoder.size, embedding)


def build_pointer_generator(
    config: DecoderConfig, encoder: BuiltEncoder, decoder: TrainedDecoder
) -> TrainedDecoder:
    """Build the output that copies words of the source beside this decoder's own."""
    match config:
        case RecurrentDecoderConfig():
            return PointerGenerator(decoder, value_size(config, encoder))
        case _:
            return PointerGenerator(decoder, encoder.size)


def build_decoder_memories(config: DecoderConfig, encoder: BuiltEncoder) -> BuildMemory:
    """Build the function from encoded sources to the memories of this decoder."""
    match config:
        case RecurrentDecoderConfig():
            return build_memories(config, encoder)
        case TransformerDecoderConfig():
            return top_layer
        case GatedConvolutionDecoderConfig():
            return build_gated_memory(config, encoder.layer_sizes)
        case DilatedConvolutionDecoderConfig():
            return unfolded_columns


def build_penalties(config: DecoderConfig) -> list[AttentionPenalty]:
    """Build the terms that attention adds to the loss."""
    if not isinstance(config, RecurrentDecoderConfig) or not config.attends:
        return []
    attention = config.attention
    if attention.sampling == "hard":
        return [HardReward(attention.reward, attention.entropy, attention.discount)]
    weight = attention.doubly_stochastic
    return [DoublyStochastic(weight)] if weight else []
