"""Encoders from their configuration, with what decoders and heads need to know of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from regard.building.convolution import build_dilated_encoder, build_gated_encoder, channels_of
from regard.building.experts import build_experts_between_layers
from regard.building.transformer import (
    build_embedder,
    build_encoder_layer,
    build_last_norm,
    build_span,
)
from regard.config import (
    BackboneEncoderConfig,
    BagOfWordsEncoderConfig,
    ConvolutionalEncoderConfig,
    DilatedConvolutionEncoderConfig,
    GatedConvolutionEncoderConfig,
    ImageEncoderConfig,
    RecurrentEncoderConfig,
    TextEncoderConfig,
    TransformerEncoderConfig,
)
from regard.config.checks import require_resolved
from regard.layers.convolution import ConvolutionStack
from regard.layers.recurrent.fast_forward_stack import FastForwardStack
from regard.layers.recurrent.residual_stack import ResidualStack
from regard.layers.recurrent.stack import RecurrentStack, Stack
from regard.models.bag_of_words import EmbeddingEncoder
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.transformer import TransformerEncoder
from regard.models.vision.backbone import Backbone
from regard.models.vision.image import (
    ConvolutionalEncoder,
    FineTunedBackboneEncoder,
    FrozenBackboneEncoder,
)
from regard.names import AttentionKind


@dataclass(frozen=True)
class BuiltEncoder:
    """An encoder and the shapes of its output."""

    module: nn.Module
    layer_sizes: tuple[int, ...]
    """Size of the states of each layer, the embeddings first."""
    num_summary_layers: int | None
    """Layers of the summary. None if the encoder computes no summary."""
    attention_kind: AttentionKind = "cross"
    """Kind of the attention to this encoder's states."""

    @property
    def size(self) -> int:
        """Size of the last layer's states."""
        return self.layer_sizes[-1]


def build_text_encoder(
    config: TextEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
    """Build an encoder of tokens or numbers on this embedding."""
    match config:
        case RecurrentEncoderConfig():
            return _build_recurrent_encoder(config, embedding)
        case TransformerEncoderConfig():
            encoder: nn.Module = TransformerEncoder(
                build_embedder(config, embedding),
                [build_encoder_layer(config) for _ in range(config.layers)],
                build_last_norm(config),
                build_span(config),
            )
            return BuiltEncoder(
                encoder, (require_resolved(config.size),) * (config.layers + 1), None
            )
        case BagOfWordsEncoderConfig():
            encoder = EmbeddingEncoder(embedding, dropout=require_resolved(config.dropout))
            return BuiltEncoder(encoder, (require_resolved(config.size),), None)
        case GatedConvolutionEncoderConfig():
            size = require_resolved(config.size)
            encoder = build_gated_encoder(config, embedding)
            return BuiltEncoder(encoder, (size, *channels_of(config), size), None)
        case DilatedConvolutionEncoderConfig():
            size, num_blocks = require_resolved(config.size), config.sets * len(config.dilations)
            encoder = build_dilated_encoder(config, embedding)
            sizes = (require_resolved(config.embedding), *[size] * num_blocks)
            return BuiltEncoder(encoder, sizes, None)


def _build_recurrent_encoder(
    config: RecurrentEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
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


def build_image_encoder(
    config: ImageEncoderConfig, image_size: int, backbone: Backbone | None
) -> BuiltEncoder:
    """Build an encoder of square images with this many pixels a side. A backbone that is not
    fine-tuned is not part of the encoder: its features come with the data."""
    dropout = require_resolved(config.dropout)
    match config:
        case ConvolutionalEncoderConfig():
            size = config.channels[-1]
            side = image_size // 2 ** len(config.channels)
            stack = ConvolutionStack(list(config.channels))
            encoder: nn.Module = ConvolutionalEncoder(stack, side * side, dropout=dropout)
        case BackboneEncoderConfig():
            if backbone is None:
                raise ValueError("model.encoder.kind backbone needs a backbone, but none came")
            size = require_resolved(config.size)
            shape = backbone.shape(image_size)
            if config.fine_tune:
                encoder = FineTunedBackboneEncoder(backbone, *shape, size, dropout=dropout)
            else:
                encoder = FrozenBackboneEncoder(*shape, size, dropout=dropout)
    return BuiltEncoder(encoder, (size,), 1, "image")
