"""Models that give one answer for a whole source."""

from __future__ import annotations

from torch import nn

from regard.building.attention import build_attention
from regard.building.transformer import build_encoder
from regard.config import ClassifierConfig, TransformerConfig
from regard.data.batch import PAD
from regard.errors import UserError
from regard.layers.recurrent.stack import RecurrentStack
from regard.linear import Linear
from regard.models.bag_of_words import EmbeddingEncoder, ItemEncoder
from regard.models.classifier import (
    AttentionPool,
    HeadModel,
    LastState,
    LastStateQuery,
    LearnedQuery,
    MeanOfValues,
    PooledHead,
)
from regard.models.memory import first_and_last, top_layer
from regard.models.recurrent.encoder import RecurrentEncoder


def build_classifier(
    config: ClassifierConfig, num_source: int, num_features: int, num_outputs: int
) -> HeadModel:
    """A model that answers whole sources: tokens of a vocabulary of this size, or so many numbers
    at each position, or both. UserError where parts do not fit."""
    size = config.embedding
    if num_source:
        embedding: nn.Embedding | nn.Linear = nn.Embedding(num_source, size, padding_idx=PAD)
    else:
        embedding = Linear(num_features, size)
    if num_source and num_features:  # keys are names, values are numbers
        encoder: nn.Module = ItemEncoder(embedding)
        remember, key_size, value_size = first_and_last, size, num_features
        if config.pool == "mean" and config.output == "none":
            raise UserError(
                "model.pool mean with model.output none gives the mean of the items' numbers, so "
                "there is nothing to learn: choose model.pool attention or model.output linear"
            )
    else:
        encoder, key_size = _build_reader(config, embedding)
        remember, value_size = top_layer, key_size
    pool = _build_pool(config, key_size)
    if config.output == "linear":
        output: nn.Module = Linear(value_size, num_outputs)
    elif value_size == num_outputs:
        output = nn.Identity()
    else:
        raise UserError(
            f"model.output none gives what was pooled as the answer, but that has {value_size} "
            f"numbers and the answer {num_outputs}: use model.output linear"
        )
    readout = PooledHead(pool, output, dropout=config.dropout)
    return HeadModel(encoder, readout, remember)


def _build_reader(
    config: ClassifierConfig, embedding: nn.Embedding | nn.Linear
) -> tuple[nn.Module, int]:
    """An encoder, and the size of its highest layer."""
    match config.encoder:
        case "embedding":
            return EmbeddingEncoder(embedding, dropout=config.dropout), config.embedding
        case "recurrent":
            stack = RecurrentStack(
                config.cell,
                config.embedding,
                config.hidden,
                config.layers,
                dropout=config.dropout,
                bidirectional=config.bidirectional,
            )
            return RecurrentEncoder(embedding, stack, dropout=config.dropout), stack.size
        case "transformer":
            return build_encoder(_as_transformer(config), embedding), config.embedding


def _as_transformer(config: ClassifierConfig) -> TransformerConfig:
    return TransformerConfig(
        size=config.embedding,
        layers=config.layers,
        heads=config.heads,
        feed_forward=config.feed_forward,
        positions=config.positions,
        longest=config.longest,
        window=config.window,
        dropout=config.dropout,
    )


def _build_pool(config: ClassifierConfig, key_size: int) -> nn.Module:
    last = config.pool == "last" or (config.pool == "attention" and config.query == "last")
    if last and config.encoder != "recurrent":
        field = "model.pool" if config.pool == "last" else "model.query"
        raise UserError(
            f"{field} last needs the last state of a recurrent encoder, but model.encoder is "
            f"{config.encoder}: choose another of either"
        )
    match config.pool:
        case "last":
            return LastState()
        case "mean":
            return MeanOfValues()
        case "attention":
            query = (LastStateQuery if config.query == "last" else LearnedQuery)(key_size)
            return AttentionPool(query, build_attention(config.attention, key_size, key_size))
