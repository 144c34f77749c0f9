"""Transformer encoders and decoders from their configuration."""

from __future__ import annotations

from torch import nn

from regard import attention
from regard.building.attention import build_attention
from regard.building.built_encoder import BuiltEncoder
from regard.building.experts import build_experts
from regard.config import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)
from regard.config.checks import require_resolved
from regard.layers.embedder import Embedder
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Learned, Positions, Rotary, Sinusoidal
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.models import transformer


def build_transformer_encoder(
    config: TransformerEncoderConfig, embedding: nn.Embedding | nn.Linear
) -> BuiltEncoder:
    """Build an encoder of tokens or numbers on this embedding."""
    encoder = transformer.TransformerEncoder(
        _build_embedder(config, embedding),
        [_build_encoder_layer(config) for _ in range(config.layers)],
        _build_last_norm(config),
        _build_span(config),
    )
    return BuiltEncoder(encoder, (require_resolved(config.size),) * (config.layers + 1), None)


def build_transformer_decoder(
    config: TransformerDecoderConfig, encoder: BuiltEncoder, embedding: nn.Embedding
) -> transformer.TransformerDecoder:
    """Build a decoder for this encoder's states, on this embedding."""
    return transformer.TransformerDecoder(
        _build_embedder(config, embedding),
        [_build_decoder_layer(config, encoder.size) for _ in range(config.layers)],
        _build_last_norm(config),
        encoder.attention_kind,
        _build_span(config),
    )


def _build_embedder(config: TransformerConfig, embedding: nn.Embedding | nn.Linear) -> Embedder:
    """Build embeddings with positions. Initialise the weights of `embedding` again, in place, with
    the standard deviation 1 / sqrt(size).

    With model.tied all, the other side has the same embedding, so its weights change too. The row
    of padding is no longer zeros; masks hide it."""
    size = require_resolved(config.size)
    nn.init.normal_(embedding.weight, std=size**-0.5)
    dropout = require_resolved(config.dropout)
    return Embedder(embedding, _build_positions(config), dropout, scale=size**0.5)


def _build_encoder_layer(config: TransformerConfig) -> transformer.EncoderLayer:
    """Build self-attention and a feed-forward network or experts."""
    return transformer.EncoderLayer(
        _build_self_attention(config, "model.encoder"),
        _build_feed_forward(config),
        (_build_residual(config), _build_residual(config)),
    )


def _build_decoder_layer(config: TransformerConfig, memory_size: int) -> transformer.DecoderLayer:
    """Build self-attention, cross-attention to states of this size and a
    feed-forward network or experts."""
    size, part = require_resolved(config.size), require_resolved(config.size) // config.heads
    attends = build_attention(config.attention, part, part, "model.decoder.attention")
    return transformer.DecoderLayer(
        _build_self_attention(config, "model.decoder"),
        attention.MultiHeadAttention(size, memory_size, memory_size, size, config.heads, attends),
        _build_feed_forward(config),
        (_build_residual(config), _build_residual(config), _build_residual(config)),
    )


def _build_last_norm(config: TransformerConfig) -> nn.Module:
    """Build the layer norm after the last layer, which stacks with norm `pre` need."""
    return nn.LayerNorm(require_resolved(config.size)) if config.norm == "pre" else nn.Identity()


def _build_span(config: TransformerConfig) -> attention.Span:
    """Build the span of self-attention."""
    return attention.FullSpan() if config.window is None else attention.SlidingWindow(config.window)


def _build_self_attention(
    config: TransformerConfig, place: str
) -> attention.MultiHeadSelfAttention:
    size, part = require_resolved(config.size), require_resolved(config.size) // config.heads
    attends = build_attention(config.attention, part, part, f"{place}.attention")
    return attention.MultiHeadSelfAttention(size, config.heads, attends)


def _build_feed_forward(config: TransformerConfig) -> nn.Module:
    size, dropout = require_resolved(config.size), config.activation_dropout
    return build_experts(config.experts, size, config.activation, dropout=dropout) or FeedForward(
        size, require_resolved(config.feed_forward), config.activation, dropout=dropout
    )


def _build_residual(config: TransformerConfig) -> Residual:
    match config.norm:
        case "pre":
            return PreNorm(require_resolved(config.size), require_resolved(config.dropout))
        case "post":
            return PostNorm(require_resolved(config.size), require_resolved(config.dropout))


def _build_positions(config: TransformerConfig) -> Positions:
    match config.positions:
        case "sinusoidal":
            return Sinusoidal()
        case "learned":
            return Learned(config.max_positions, require_resolved(config.size))
        case "rotary":
            return Rotary()
