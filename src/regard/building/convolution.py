"""Encoders and decoders of convolutions from their configuration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from torch import nn

from regard.building.attention import build_attention
from regard.building.built_encoder import BuiltEncoder
from regard.config import (
    DilatedConvolutionConfig,
    DilatedConvolutionDecoderConfig,
    DilatedConvolutionEncoderConfig,
    GatedConvolutionDecoderConfig,
    GatedConvolutionEncoderConfig,
)
from regard.config.checks import require_resolved
from regard.config.parts.convolution import GatedConvolutionConfig
from regard.layers.embedder import Embedder
from regard.layers.positions import Learned, Positions, Sinusoidal
from regard.layers.weight_norm import NormalisedLinear
from regard.models.convolution.dilated_convolution import (
    DilatedBlock,
    DilatedConvolutionDecoder,
    DilatedConvolutionEncoder,
)
from regard.models.convolution.gated_convolution import (
    ConvolutionalAttention,
    GatedConvolution,
    GatedConvolutionDecoder,
    GatedConvolutionEncoder,
    plain_linear,
)
from regard.models.memory import OutputPlusEmbeddings

STD = 0.1
"""Standard deviation of embeddings and of learned positions (Gehring et al. 2017, section 3.5)."""


def build_gated_encoder(
    config: GatedConvolutionEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
    """Build an encoder of gated convolutions on this embedding, whose weights are drawn again."""
    size = require_resolved(config.size)
    embedder = _build_embedder(config, embedding)
    encoder = GatedConvolutionEncoder(
        embedder, list(_build_convolutions(config)), _build_maps(config, size)
    )
    return BuiltEncoder(encoder, (size, *_channels(config), size), None)


def build_gated_decoder(
    config: GatedConvolutionDecoderConfig, encoder: BuiltEncoder, embedding: nn.Embedding
) -> GatedConvolutionDecoder:
    """Build a decoder of gated convolutions for this encoder's states. UserError for a score that
    does not fit their size."""
    size, memory_size = require_resolved(config.size), encoder.size
    embedder = _build_embedder(config, embedding)
    layers = [
        (
            convolution,
            ConvolutionalAttention(
                build_attention(config.attention, size, memory_size, "model.decoder.attention"),
                channels,
                size,
                memory_size,
            ),
        )
        for convolution, channels in zip(
            _build_convolutions(config), _channels(config), strict=True
        )
    ]
    return GatedConvolutionDecoder(
        embedder,
        layers,
        _build_maps(config, require_resolved(config.output_size)),
        require_resolved(config.dropout),
        encoder.attention_kind,
    )


def build_gated_memory(
    config: GatedConvolutionDecoderConfig, encoder: BuiltEncoder
) -> OutputPlusEmbeddings:
    """Build the function from encoded sources to the memory of a decoder of gated convolutions."""
    sizes = encoder.layer_sizes
    has_embeddings = len(sizes) > 1 and sizes[0] == sizes[-1]
    return OutputPlusEmbeddings(config.layers, adds_embeddings=has_embeddings)


def _channels(config: GatedConvolutionConfig) -> tuple[int, ...]:
    """Return the channels of each layer."""
    return _repeated(require_resolved(config.channels), config.layers)


def _repeated(numbers: tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    return numbers * num_layers if len(numbers) == 1 else numbers


def _build_embedder(
    config: GatedConvolutionConfig, embedding: nn.Embedding | nn.Linear
) -> Embedder:
    """Build embeddings with positions, both of the standard deviation `STD`. The weights of
    `embedding` are initialised again, in place; the bias of a linear layer, for numbers, is 0."""
    size = require_resolved(config.size)
    nn.init.normal_(embedding.weight, std=STD)
    if isinstance(embedding, nn.Linear):
        nn.init.zeros_(embedding.bias)
    positions: Positions
    match config.positions:
        case "sinusoidal":
            positions = Sinusoidal()
        case "learned":
            positions = Learned(config.max_positions, size)
            nn.init.normal_(positions.table, std=STD)
    return Embedder(embedding, positions, require_resolved(config.dropout), scale=1.0)


def _build_convolutions(config: GatedConvolutionConfig) -> Iterator[GatedConvolution]:
    channels = _channels(config)
    widths = _repeated(config.widths, config.layers)
    for (inputs, outputs), width in zip(pairwise((channels[0], *channels)), widths, strict=True):
        yield GatedConvolution(inputs, outputs, width, require_resolved(config.dropout))


def _build_maps(
    config: GatedConvolutionConfig, output_size: int
) -> tuple[NormalisedLinear, NormalisedLinear]:
    """Build the linear layers from embeddings to channels, and from channels to the output."""
    channels, dropout = _channels(config), require_resolved(config.dropout)
    size = require_resolved(config.size)
    first = NormalisedLinear(size, channels[0], std=((1 - dropout) / size) ** 0.5)
    return first, plain_linear(channels[-1], output_size)


def build_dilated_encoder(
    config: DilatedConvolutionEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
    """Build an encoder of dilated convolutions on this embedding."""
    sizes = require_resolved(config.embedding), require_resolved(config.size)
    dropout = require_resolved(config.dropout)
    blocks = _build_blocks(config)
    encoder = DilatedConvolutionEncoder(embedding, blocks, sizes, config.unfolding, dropout)
    return BuiltEncoder(encoder, (sizes[0], *[sizes[1]] * len(blocks)), None)


def build_dilated_decoder(
    config: DilatedConvolutionDecoderConfig, encoder: BuiltEncoder, embedding: nn.Embedding
) -> DilatedConvolutionDecoder:
    """Build a decoder of dilated convolutions on this encoder's states."""
    return DilatedConvolutionDecoder(
        embedding,
        _build_blocks(config),
        encoder.size,
        require_resolved(config.size),
        require_resolved(config.dropout),
    )


def _build_blocks(config: DilatedConvolutionConfig) -> list[DilatedBlock]:
    size, dropout = require_resolved(config.size), require_resolved(config.dropout)
    return [
        DilatedBlock(size, config.width, dilation, dropout)
        for dilation in config.dilations * config.sets
    ]
