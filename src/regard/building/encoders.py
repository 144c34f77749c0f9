"""Encoders of texts and numbers from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.built_encoder import BuiltEncoder
from regard.config import (
    BagOfWordsEncoderConfig,
    DilatedConvolutionEncoderConfig,
    GatedConvolutionEncoderConfig,
    RecurrentEncoderConfig,
    TextEncoderConfig,
    TransformerEncoderConfig,
)
from regard.config.checks import require_resolved


def build_text_encoder(
    config: TextEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
    """Build an encoder of tokens or numbers on this embedding. The modules of its family are
    imported here, and those of other families are not."""
    match config:
        case RecurrentEncoderConfig():
            from regard.building.recurrent import build_recurrent_encoder

            return build_recurrent_encoder(config, embedding)
        case TransformerEncoderConfig():
            from regard.building.transformer import build_transformer_encoder

            return build_transformer_encoder(config, embedding)
        case BagOfWordsEncoderConfig():
            from regard.models.bag_of_words import EmbeddingEncoder

            encoder = EmbeddingEncoder(embedding, dropout=require_resolved(config.dropout))
            return BuiltEncoder(encoder, (require_resolved(config.size),), None)
        case GatedConvolutionEncoderConfig():
            from regard.building.convolution import build_gated_encoder

            return build_gated_encoder(config, embedding)
        case DilatedConvolutionEncoderConfig():
            from regard.building.convolution import build_dilated_encoder

            return build_dilated_encoder(config, embedding)
