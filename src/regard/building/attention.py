"""Scores and normalisers by their names."""

from __future__ import annotations

from dataclasses import replace

from regard import attention
from regard.attention import Attention, AttentionFunction
from regard.config import AttentionConfig
from regard.errors import UserError


def build_attention(config: AttentionConfig, query_size: int, key_size: int) -> Attention:
    """A score of these sizes with its normaliser, of all there is."""
    if config.scope != "global":
        raise UserError(
            f"model.attention.scope {config.scope} goes along with a target, which only the look "
            "of a recurrent decoder at a source text can: leave it out (self-attention of a "
            "Transformer has model.window)"
        )
    match config.score:
        case "dot":
            score: attention.Score = attention.Dot()
        case "scaled_dot":
            score = attention.ScaledDot()
        case "general":
            score = attention.General(query_size, key_size)
        case "additive":
            score = attention.Additive(query_size, key_size, config.size)
        case "concat":
            score = attention.Concat(query_size, key_size, config.size)
        case "shared_additive":
            _need_equal(config.score, query_size, key_size)
            score = attention.SharedAdditive(key_size, config.size)
        case "cosine":
            score = attention.Cosine()
        case "coverage" | "location":
            raise UserError(
                f"model.attention.score {config.score} remembers the step before, which only the "
                "look of a recurrent decoder at a source text can: choose another score"
            )
    if config.score in ("dot", "scaled_dot", "cosine"):
        _need_equal(config.score, query_size, key_size)
    return Attention(score, _build_normaliser(config), config.dropout)


def build_source_attention(
    config: AttentionConfig, query_size: int, key_size: int
) -> AttentionFunction:
    """How a recurrent decoder attends to its source: by any score, of all or of a window."""
    normaliser = _build_normaliser(config)
    if config.score in ("coverage", "location"):
        if config.scope != "global":
            raise UserError(
                f"model.attention.score {config.score} goes with model.attention.scope global, but "
                f"the scope is {config.scope}: change either"
            )
        kind = attention.Coverage if config.score == "coverage" else attention.Location
        score = attention.HistoryAdditive(query_size, key_size, kind(config.size))
        return attention.HistoryAttention(score, normaliser, config.dropout)
    whole = build_attention(replace(config, scope="global"), query_size, key_size)
    match config.scope:
        case "global":
            return whole
        case "local_m":
            centre: attention.Centre = attention.Monotonic()
        case "local_p":
            centre = attention.Predictive(query_size, config.size, config.window)
    return attention.LocalAttention(whole.score, centre, config.window, normaliser, config.dropout)


def _build_normaliser(config: AttentionConfig) -> attention.Normaliser:
    match config.normaliser:
        case "softmax":
            return attention.Softmax(config.temperature)
        case "sparsemax":
            return attention.Sparsemax(config.temperature)
        case "entmax15":
            return attention.Entmax15(config.temperature)


def _need_equal(score: str, query_size: int, key_size: int) -> None:
    if query_size != key_size:
        raise UserError(
            f"model.attention.score {score} needs queries and keys of one size, but queries have "
            f"{query_size} and keys {key_size} numbers: choose general, additive or concat, or "
            "make them equal"
        )
