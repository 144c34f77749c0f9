"""Attention layers from their configuration."""

from __future__ import annotations

from typing import get_args

from regard import attention
from regard.attention import (
    Attention,
    AttentionFunction,
    HardAttention,
    StraightThroughAttention,
)
from regard.config import AttentionConfig, DecoderAttentionConfig
from regard.config.checks import require_resolved
from regard.errors import UserError
from regard.names import EqualSizesScoreName, NormaliserName, ScoreName


def build_attention(
    config: AttentionConfig, query_size: int, key_size: int, place: str
) -> Attention:
    """Build attention for queries and keys of these sizes.

    `place` is the field of the configuration, for messages. UserError if the score does not fit
    the sizes."""
    return Attention(
        _build_score(config.score, config.size, query_size, key_size, place),
        build_normaliser(config.normaliser, config.temperature),
        config.dropout,
    )


def build_decoder_attention(
    config: DecoderAttentionConfig, query_size: int, key_size: int, place: str
) -> AttentionFunction:
    """Build the attention of a recurrent decoder to its source."""
    normaliser = build_normaliser(config.normaliser, config.temperature)
    if config.score == "coverage" or config.score == "location":
        kind = attention.Coverage if config.score == "coverage" else attention.Location
        history = attention.HistoryAdditive(
            query_size, key_size, kind(require_resolved(config.size))
        )
        return attention.HistoryAttention(history, normaliser, config.dropout)
    score = _build_score(config.score, config.size, query_size, key_size, place)
    match config.scope:
        case "global":
            soft = Attention(score, normaliser, config.dropout)
            match config.sampling:
                case "soft":
                    return soft
                case "hard":
                    return HardAttention(soft, config.expected)
                case "straight_through":
                    return StraightThroughAttention(soft)
        case "local_m":
            centre: attention.Centre = attention.Monotonic()
        case "local_p":
            centre = attention.Predictive(query_size, require_resolved(config.size), config.window)
    return attention.LocalAttention(score, centre, config.window, normaliser, config.dropout)


def _build_score(
    name: ScoreName, size: int | None, query_size: int, key_size: int, place: str
) -> attention.Score:
    if name in get_args(EqualSizesScoreName) and query_size != key_size:
        raise UserError(
            f"{place}.score is {name}, which needs queries and keys of one size, but queries have "
            f"{query_size} and keys {key_size} numbers: choose general, additive or concat, or "
            "make the sizes equal"
        )
    match name:
        case "dot":
            return attention.Dot()
        case "scaled_dot":
            return attention.ScaledDot()
        case "general":
            return attention.General(query_size, key_size)
        case "additive":
            return attention.Additive(query_size, key_size, require_resolved(size))
        case "concat":
            return attention.Concat(query_size, key_size, require_resolved(size))
        case "shared_additive":
            return attention.SharedAdditive(key_size, require_resolved(size))
        case "cosine":
            return attention.Cosine()


def build_normaliser(name: NormaliserName, temperature: float = 1.0) -> attention.Normaliser:
    """Build a normaliser from its name."""
    match name:
        case "softmax":
            return attention.Softmax(temperature)
        case "sparsemax":
            return attention.Sparsemax(temperature)
        case "entmax15":
            return attention.Entmax15(temperature)
        case "sigmoid":
            return attention.Sigmoid(temperature)
        case "scaled_softmax":
            return attention.ScaledSoftmax(temperature)
