"""Which decoders have kernels for all of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from torch import nn

from regard.attention import Attention, Softmax
from regard.attention.multihead import Heads, MultiHeadAttention, MultiHeadSelfAttention
from regard.attention.scores import Dot, ScaledDot
from regard.fast_path import are_unchanged, is_exactly
from regard.layers.dropout import Dropout
from regard.layers.embedder import Embedder
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Learned, Rotary, Sinusoidal
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.linear import Linear
from regard.models.transformer.decoder import DecoderLayer, TransformerDecoder


def has_kernels(decoder: TransformerDecoder) -> bool:
    """Whether the kernels compute what every part of a decoder computes."""
    layers = list(decoder.layers)
    return bool(
        layers
        and is_exactly(decoder, TransformerDecoder)
        and are_unchanged(decoder)
        and type(decoder.embedder) is Embedder
        and type(decoder.embedder.positions) in (Sinusoidal, Learned, Rotary)
        and type(decoder.embedder.dropout) is Dropout
        and type(decoder.projection) is Linear
        and (type(decoder.norm) is nn.Identity or _is_affine(decoder.norm))
        and all(type(part) in types for layer in layers for part, types in _parts(layer))
        and all(map(_is_uniform, layers))
        and len(set(map(_settings, layers))) == 1
    )


def _parts(layer: DecoderLayer) -> Iterator[tuple[object, tuple[type, ...]]]:
    """Parts of a layer, with the classes that the kernels compute."""
    yield layer, (DecoderLayer,)
    yield layer.self_attention, (MultiHeadSelfAttention,)
    yield layer.cross_attention, (MultiHeadAttention,)
    yield layer.feed_forward, (FeedForward,)
    yield getattr(layer.feed_forward, "dropout", None), (Dropout,)
    for residual in _residuals(layer):
        yield residual, (PreNorm, PostNorm)
        yield residual.norm, (nn.LayerNorm,)
        yield residual.dropout, (Dropout,)
    for heads in (layer.self_attention.heads, layer.cross_attention.heads):
        yield heads, (Heads,)
        yield heads.attention, (Attention,)
        yield heads.attention.dropout, (nn.Dropout,)
        yield heads.attention.score, (Dot, ScaledDot)
        yield heads.attention.normaliser, (Softmax,)
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            yield module, (Linear,)


def _residuals(layer: DecoderLayer) -> tuple[Residual, Residual, Residual]:
    return layer.self_residual, layer.cross_residual, layer.feed_forward_residual


def _settings(layer: DecoderLayer) -> tuple[object, ...]:
    """Settings that all layers must share."""
    heads = layer.self_attention.heads, layer.cross_attention.heads
    feed_forward = cast(FeedForward, layer.feed_forward)
    return (
        *(each.num_heads for each in heads),
        *(type(each.attention.score) for each in heads),
        *(cast(Softmax, each.attention.normaliser).temperature for each in heads),
        feed_forward.activation,
        feed_forward.inner.out_features,
        layer.self_attention.projection.in_features,
        layer.cross_attention.key.in_features,
        type(layer.self_residual),
    )


def _is_uniform(layer: DecoderLayer) -> bool:
    """Whether the parts of a layer agree on what the kernels have one number for, and its norms
    have weights."""
    residuals, attention = _residuals(layer), layer.cross_attention
    return (
        len(set(map(type, residuals))) == 1
        and layer.self_attention.heads.num_heads == attention.heads.num_heads
        and attention.key.in_features == attention.value.in_features
        and all(_is_affine(residual.norm) for residual in residuals)
    )


def _is_affine(norm: nn.Module) -> bool:
    """Whether a module is a layer norm of the last axis, with a weight and a bias."""
    return (
        type(norm) is nn.LayerNorm
        and len(norm.normalized_shape) == 1
        and norm.weight is not None
        and norm.bias is not None
    )
