"""Classifiers from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.encoders import build_text_encoder
from regard.building.experts import encoder_with_experts
from regard.building.heads import build_head, needs_last_state
from regard.compiled.accelerate import accelerated
from regard.config import BagOfWordsEncoderConfig, ClassificationModelConfig, MeanHeadConfig
from regard.config.checks import require_resolved
from regard.config.models import embedding_size
from regard.data.batch import PAD
from regard.errors import UserError
from regard.models.bag_of_words import ItemEncoder
from regard.models.heads import HeadModel
from regard.models.memory import BuildMemory, WithSummary, first_and_last, last_position, top_layer
from regard.numerics.linear import Linear


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
    return accelerated(
        HeadModel(encoder_with_experts(config.encoder, encoder.module), head, build_memory)
    )


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
    return accelerated(HeadModel(ItemEncoder(embedding), head, first_and_last))
