"""Translation models from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.decoders import (
    build_decoder,
    build_decoder_memories,
    build_penalties,
    build_pointer_generator,
)
from regard.building.encoders import build_text_encoder
from regard.building.experts import decoder_with_experts, encoder_with_experts
from regard.compiled.accelerate import accelerated
from regard.config import RecurrentDecoderConfig, TranslationModelConfig
from regard.config.checks import require_resolved
from regard.config.models import embedding_size
from regard.data.batch import PAD
from regard.errors import UserError
from regard.models.contracts import TrainedDecoder
from regard.models.seq2seq import Seq2Seq


def build_translation(
    config: TranslationModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
) -> Seq2Seq:
    """Build a model for vocabularies of these sizes. UserError if its parts do not fit."""
    config = config.resolve()
    embeddings = _build_embeddings(config, source_vocabulary_size, target_vocabulary_size)
    encoder = build_text_encoder(config.encoder, embeddings[0])
    decoder = build_decoder(config.decoder, encoder, embeddings[1])
    if config.tied != "none":
        _tie(config, decoder, embeddings[1])
    decoder = decoder_with_experts(config.decoder, decoder)
    if config.copy == "pointer_generator":
        decoder = build_pointer_generator(config.decoder, encoder, decoder)
    return accelerated(
        Seq2Seq(
            encoder_with_experts(config.encoder, encoder.module),
            decoder,
            build_decoder_memories(config.decoder, encoder),
            build_penalties(config.decoder),
        )
    )


def _build_embeddings(
    config: TranslationModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
) -> tuple[nn.Embedding, nn.Embedding]:
    """Build the embeddings of source and target, or one for both."""
    sizes = [require_resolved(embedding_size(part)) for part in (config.encoder, config.decoder)]
    source = nn.Embedding(source_vocabulary_size, sizes[0], padding_idx=PAD)
    if config.tied != "all":
        return source, nn.Embedding(target_vocabulary_size, sizes[1], padding_idx=PAD)
    if source_vocabulary_size != target_vocabulary_size:
        raise UserError(
            "model.tied all needs one vocabulary for both sides, but the source has "
            f"{source_vocabulary_size} and the target {target_vocabulary_size} words: set "
            "data.shared_vocabulary"
        )
    return source, source


def _tie(config: TranslationModelConfig, decoder: TrainedDecoder, embedding: nn.Embedding) -> None:
    """Make the target embeddings the weights of the output layer. UserError if their sizes
    differ."""
    size, feature_size = embedding.embedding_dim, decoder.projection.in_features
    if isinstance(config.decoder, RecurrentDecoderConfig):
        if feature_size != size:
            raise UserError(
                f"model.tied {config.tied} needs output features of the size of the embeddings, "
                f"but they have {feature_size} and {size} numbers: set model.decoder.output to "
                "tanh or deep, and model.decoder.size to model.decoder.embedding"
            )
        # with nn.Embedding's N(0, 1), logits would have a standard deviation of sqrt(size)
        nn.init.normal_(embedding.weight, std=size**-0.5)
    elif feature_size != size:
        raise UserError(
            f"model.tied {config.tied} needs features of the size of the embeddings, but "
            f"model.decoder.output_size is {feature_size} and model.decoder.size {size}: set both "
            "to one number"
        )
    decoder.projection.weight = embedding.weight
