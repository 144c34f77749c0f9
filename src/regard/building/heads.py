"""Heads from their configuration."""

from __future__ import annotations

from torch import nn

from regard.building.attention import build_attention
from regard.config import AttentionHeadConfig, HeadConfig, LastHeadConfig, MeanHeadConfig
from regard.config.checks import require_resolved
from regard.errors import UserError
from regard.models.heads import (
    AttentionPool,
    LastState,
    LastStateHeadQuery,
    LearnedHeadQuery,
    MeanOfValues,
    Pool,
    PooledHead,
)
from regard.numerics.linear import Linear


def build_head(config: HeadConfig, key_size: int, value_size: int, num_outputs: int) -> PooledHead:
    """Build a head over keys and values of these sizes. UserError if its output has another size
    than the prediction."""
    pool = _build_pool(config, key_size)
    if config.output == "linear":
        output: nn.Module = Linear(value_size, num_outputs)
    elif value_size == num_outputs:
        output = nn.Identity()
    else:
        raise UserError(
            "model.head.output none predicts the pooled vector, which has "
            f"{value_size} numbers, but the prediction has {num_outputs}: set model.head.output "
            "to linear"
        )
    return PooledHead(pool, output, dropout=require_resolved(config.dropout))


def needs_last_state(config: HeadConfig) -> bool:
    """Whether the head reads the summary of the source."""
    return isinstance(config, LastHeadConfig) or (
        isinstance(config, AttentionHeadConfig) and config.query == "last"
    )


def _build_pool(config: HeadConfig, key_size: int) -> Pool:
    match config:
        case LastHeadConfig():
            return LastState()
        case MeanHeadConfig():
            return MeanOfValues()
        case AttentionHeadConfig():
            query = LastStateHeadQuery() if config.query == "last" else LearnedHeadQuery(key_size)
            attention = build_attention(
                config.attention, key_size, key_size, "model.head.attention"
            )
            return AttentionPool(query, attention)
