"""Transformers, and their encoders alone."""

from __future__ import annotations

from torch import nn

from regard import attention
from regard.building.attention import build_attention
from regard.building.embeddings import build_embeddings
from regard.config import TransformerConfig
from regard.layers.embedder import Embedder
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Learned, Positions, Rotary, Sinusoidal
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.models import transformer
from regard.models.memory import top_layer
from regard.models.seq2seq import Seq2Seq
from regard.names import AttentionKind


def build_transformer(config: TransformerConfig, num_source: int, num_target: int) -> Seq2Seq:
    """A Transformer for vocabularies of these sizes."""
    embeddings = build_embeddings(num_source, num_target, config.size, are_one=config.tied == "all")
    encoder = build_encoder(config, embeddings[0])
    decoder = build_decoder(config, embeddings[1])
    if config.tied != "none":
        decoder.projection.weight = embeddings[1].weight
    return Seq2Seq(encoder, decoder, top_layer)


def build_encoder(
    config: TransformerConfig, embedding: nn.Embedding | nn.Linear
) -> transformer.TransformerEncoder:
    """An encoder of tokens, or of numbers that a linear layer embeds."""
    return transformer.TransformerEncoder(
        _build_embedder(config, embedding),
        [_build_encoder_layer(config) for _ in range(config.layers)],
        _build_last_norm(config),
        _build_span(config),
    )


def build_decoder(
    config: TransformerConfig, embedding: nn.Embedding, kind: AttentionKind = "cross"
) -> transformer.TransformerDecoder:
    """A decoder that looks at one memory, whatever made it."""
    return transformer.TransformerDecoder(
        _build_embedder(config, embedding),
        [_build_decoder_layer(config) for _ in range(config.decoder_layers or config.layers)],
        _build_last_norm(config),
        kind,
        _build_span(config),
    )


def _build_embedder(config: TransformerConfig, embedding: nn.Embedding | nn.Linear) -> Embedder:
    nn.init.normal_(embedding.weight, std=config.size**-0.5)
    return Embedder(embedding, _build_positions(config), config.dropout)


def _build_encoder_layer(config: TransformerConfig) -> transformer.EncoderLayer:
    return transformer.EncoderLayer(
        _build_self_attention(config),
        _build_feed_forward(config),
        (_build_residual(config), _build_residual(config)),
    )


def _build_decoder_layer(config: TransformerConfig) -> transformer.DecoderLayer:
    size, part = config.size, config.size // config.heads
    attends = build_attention(config.attention, part, part)
    return transformer.DecoderLayer(
        _build_self_attention(config),
        attention.MultiHeadAttention(size, size, size, size, config.heads, attends),
        _build_feed_forward(config),
        (_build_residual(config), _build_residual(config), _build_residual(config)),
    )


def _build_self_attention(config: TransformerConfig) -> attention.MultiHeadSelfAttention:
    part = config.size // config.heads
    attends = build_attention(config.attention, part, part)
    return attention.MultiHeadSelfAttention(config.size, config.heads, attends)


def _build_feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        config.size, config.feed_forward, config.activation, dropout=config.activation_dropout
    )


def _build_residual(config: TransformerConfig) -> Residual:
    match config.norm:
        case "pre":
            return PreNorm(config.size, config.dropout)
        case "post":
            return PostNorm(config.size, config.dropout)


def _build_last_norm(config: TransformerConfig) -> nn.Module:
    """Where norms come before sublayers, nothing else would end the stack with one."""
    return nn.LayerNorm(config.size) if config.norm == "pre" else nn.Identity()


def _build_span(config: TransformerConfig) -> attention.Span:
    return attention.FullSpan() if config.window is None else attention.SlidingWindow(config.window)


def _build_positions(config: TransformerConfig) -> Positions:
    match config.positions:
        case "sinusoidal":
            return Sinusoidal()
        case "learned":
            return Learned(config.longest, config.size)
        case "rotary":
            return Rotary()
