"""Whole models from their configuration."""

from __future__ import annotations

import logging
from typing import TypeVar

from torch import nn

from regard.building.decoders import (
    build_decoder,
    build_decoder_memories,
    build_penalties,
    build_pointer_generator,
)
from regard.building.encoders import build_image_encoder, build_text_encoder
from regard.building.experts import decoder_with_experts, encoder_with_experts
from regard.building.heads import build_head, needs_last_state
from regard.compiled.accelerate import accelerate
from regard.config import (
    BagOfWordsEncoderConfig,
    CaptionModelConfig,
    ClassificationModelConfig,
    MeanHeadConfig,
    TranslationModelConfig,
)
from regard.config.checks import require_resolved
from regard.config.models import embedding_size
from regard.data.batch import PAD
from regard.errors import UserError
from regard.models.bag_of_words import ItemEncoder
from regard.models.contracts import TrainedDecoder
from regard.models.heads import HeadModel
from regard.models.memory import BuildMemory, WithSummary, first_and_last, last_position, top_layer
from regard.models.recurrent.decoders import RecurrentDecoder
from regard.models.seq2seq import Seq2Seq
from regard.models.vision.backbone import Backbone
from regard.numerics.linear import Linear

log = logging.getLogger(__name__)
AnyModel = TypeVar("AnyModel", Seq2Seq, HeadModel)


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
    decoder = decoder_with_experts(decoder)
    if config.copy == "pointer_generator":
        decoder = build_pointer_generator(config.decoder, encoder, decoder)
    return _accelerated(
        Seq2Seq(
            encoder_with_experts(encoder.module),
            decoder,
            build_decoder_memories(config.decoder, encoder),
            build_penalties(config.decoder),
        )
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
    encoder = build_image_encoder(config.encoder, image_size, backbone)
    size = require_resolved(embedding_size(config.decoder))
    embedding = nn.Embedding(target_vocabulary_size, size, padding_idx=PAD)
    return _accelerated(
        Seq2Seq(
            encoder.module,
            decoder_with_experts(build_decoder(config.decoder, encoder, embedding)),
            build_decoder_memories(config.decoder, encoder),
            build_penalties(config.decoder),
        )
    )


def build_classifier(
    config: ClassificationModelConfig,
    source_vocabulary_size: int,
    num_features: int,
    num_outputs: int,
) -> HeadModel:
    """Build a model from sources to a label or to numbers. A source has tokens of a vocabulary of
    size `source_vocabulary_size`, or `num_features` numbers at each position, or both. UserError if
    the parts do not fit."""
    config = config.resolve()
    size = require_resolved(embedding_size(config.encoder))
    if source_vocabulary_size:
        embedding: nn.Embedding | nn.Linear = nn.Embedding(
            source_vocabulary_size, size, padding_idx=PAD
        )
    else:
        embedding = Linear(num_features, size)
    if source_vocabulary_size and num_features:
        return _build_item_classifier(config, embedding, num_features, num_outputs)
    encoder = build_text_encoder(config.encoder, embedding)
    build_memory: BuildMemory = top_layer
    if encoder.num_summary_layers is None and needs_last_state(config.head):
        build_memory = WithSummary(build_memory, last_position)
    head = build_head(config.head, encoder.size, encoder.size, num_outputs)
    return _accelerated(HeadModel(encoder_with_experts(encoder.module), head, build_memory))


def _accelerated(model: AnyModel) -> AnyModel:
    """Return the model with accelerated classes in the place of formulas."""
    acceleration = accelerate(model)
    log.debug("%s", acceleration)
    return model


def _build_item_classifier(
    config: ClassificationModelConfig,
    embedding: nn.Embedding | nn.Linear,
    num_features: int,
    num_outputs: int,
) -> HeadModel:
    """Build a classifier of items: their names are keys, their numbers are values."""
    if not isinstance(config.encoder, BagOfWordsEncoderConfig):
        raise UserError(
            f"model.encoder.kind is {config.encoder.kind}, but items have no order: set it to "
            "bag_of_words"
        )
    if needs_last_state(config.head):
        raise UserError(
            "model.head reads the last position of the source, but items have no order: set "
            "model.head.kind to attention or mean, with model.head.query learned"
        )
    if isinstance(config.head, MeanHeadConfig) and config.head.output == "none":
        raise UserError(
            "model.head.kind mean with model.head.output none predicts the mean of the items' "
            "numbers, so there is nothing to learn: set model.head.kind to attention or "
            "model.head.output to linear"
        )
    size = require_resolved(config.encoder.size)
    head = build_head(config.head, size, num_features, num_outputs)
    return _accelerated(HeadModel(ItemEncoder(embedding), head, first_and_last))


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
    if isinstance(decoder, RecurrentDecoder):
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
