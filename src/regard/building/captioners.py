"""Captioners from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.built_encoder import BuiltEncoder
from regard.building.decoders import build_decoder, build_decoder_memories, build_penalties
from regard.building.experts import decoder_with_experts
from regard.compiled.accelerate import accelerated
from regard.config import (
    BackboneEncoderConfig,
    CaptionModelConfig,
    ConvolutionalEncoderConfig,
    ImageEncoderConfig,
)
from regard.config.checks import require_resolved
from regard.config.models import embedding_size
from regard.data.batch import PAD
from regard.layers.convolution import ConvolutionStack
from regard.models.seq2seq import Seq2Seq
from regard.models.vision.backbone import Backbone
from regard.models.vision.image import (
    ConvolutionalEncoder,
    FineTunedBackboneEncoder,
    FrozenBackboneEncoder,
)


def build_captioner(
    config: CaptionModelConfig,
    image_size: int,
    target_vocabulary_size: int,
    backbone: Backbone | None = None,
) -> Seq2Seq:
    """Build a model from square images with this many pixels a side to words of a vocabulary of
    this size. UserError if its parts do not fit."""
    config = config.resolve()
    encoder = _build_image_encoder(config.encoder, image_size, backbone)
    size = require_resolved(embedding_size(config.decoder))
    embedding = nn.Embedding(target_vocabulary_size, size, padding_idx=PAD)
    return accelerated(
        Seq2Seq(
            encoder.module,
            decoder_with_experts(config.decoder, build_decoder(config.decoder, encoder, embedding)),
            build_decoder_memories(config.decoder, encoder),
            build_penalties(config.decoder),
        )
    )


def _build_image_encoder(
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
