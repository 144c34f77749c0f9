"""Decoders from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.built_encoder import BuiltEncoder
from regard.building.memories import build_memories, value_size
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


def build_decoder(
    config: DecoderConfig, encoder: BuiltEncoder, embedding: nn.Embedding
) -> TrainedDecoder:
    """Build a decoder for this encoder's states, on this embedding. The modules of its family are
    imported here, and those of other families are not."""
    match config:
        case RecurrentDecoderConfig():
            from regard.building.recurrent import build_recurrent_decoder

            return build_recurrent_decoder(config, encoder, embedding)
        case TransformerDecoderConfig():
            from regard.building.transformer import build_transformer_decoder

            return build_transformer_decoder(config, encoder, embedding)
        case GatedConvolutionDecoderConfig():
            from regard.building.convolution import build_gated_decoder

            return build_gated_decoder(config, encoder, embedding)
        case DilatedConvolutionDecoderConfig():
            from regard.building.convolution import build_dilated_decoder

            return build_dilated_decoder(config, encoder, embedding)


def build_pointer_generator(
    config: DecoderConfig, encoder: BuiltEncoder, decoder: TrainedDecoder
) -> TrainedDecoder:
    """Build the output that copies words of the source beside this decoder's own."""
    from regard.models.pointer_generator import PointerGenerator

    if isinstance(config, RecurrentDecoderConfig):
        return PointerGenerator(decoder, value_size(config, encoder))
    return PointerGenerator(decoder, encoder.size)


def build_decoder_memories(config: DecoderConfig, encoder: BuiltEncoder) -> BuildMemory:
    """Build the function from encoded sources to the memories of this decoder."""
    match config:
        case RecurrentDecoderConfig():
            return build_memories(config, encoder)
        case TransformerDecoderConfig():
            return top_layer
        case GatedConvolutionDecoderConfig():
            from regard.building.convolution import build_gated_memory

            return build_gated_memory(config, encoder)
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
