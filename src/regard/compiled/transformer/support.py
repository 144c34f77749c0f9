"""Which encoders and decoders have kernels for all of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any, cast

from torch import nn

from regard.attention import Attention, FullSpan, Softmax
from regard.attention.multihead import Heads, MultiHeadAttention, MultiHeadSelfAttention
from regard.attention.scores import Dot, ScaledDot
from regard.compiled.exact import are_unchanged, is_exactly, is_kind, kind_of
from regard.layers.dropout import Dropout
from regard.layers.embedder import Embedder
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Learned, Rotary, Sinusoidal
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.models.transformer.decoder import DecoderLayer, TransformerDecoder
from regard.models.transformer.encoder import EncoderLayer, TransformerEncoder
from regard.numerics.linear import Linear


def is_supported(stack: TransformerEncoder | TransformerDecoder) -> bool:
    """Whether the kernels compute what every part of an encoder or decoder computes."""
    layers: list[Any] = list(stack.layers)
    return bool(
        is_exactly(stack, TransformerEncoder, TransformerDecoder)
        and layers
        and are_unchanged(stack)
        and all(kind_of(part) in types for part, types in _parts(stack))
        and (is_kind(stack.norm, nn.Identity) or _is_affine(stack.norm))
        and all(map(_is_uniform, layers))
        and len(set(map(_settings, layers))) == 1
        and (not is_kind(stack.embedder.positions, Rotary) or _can_rotate(layers[0]))
    )


def _can_rotate(layer: EncoderLayer | DecoderLayer) -> bool:
    """Whether vectors of a head consist of pairs of numbers."""
    heads = layer.self_attention.heads
    return heads.output.in_features // heads.num_heads % 2 == 0


def _parts(
    stack: TransformerEncoder | TransformerDecoder,
) -> Iterator[tuple[object, tuple[type, ...]]]:
    """Iterate over the parts of an encoder or decoder, with the classes that the kernels
    compute."""
    yield stack.embedder, (Embedder,)
    yield stack.embedder.positions, (Sinusoidal, Learned, Rotary)
    yield stack.embedder.dropout, (Dropout,)
    if isinstance(stack, TransformerDecoder):
        embedding = stack.embedder.embedding
        yield embedding, (nn.Embedding,)
        yield embedding.max_norm, (NoneType,)
        yield stack.projection, (Linear,)
    else:
        yield stack.span, (FullSpan,)
    for layer in stack.layers:
        yield from _parts_of_layer(layer)


def _parts_of_layer(
    layer: EncoderLayer | DecoderLayer,
) -> Iterator[tuple[object, tuple[type, ...]]]:
    yield layer, (EncoderLayer, DecoderLayer)
    yield layer.self_attention, (MultiHeadSelfAttention,)
    if isinstance(layer, DecoderLayer):
        yield layer.cross_attention, (MultiHeadAttention,)
    yield layer.feed_forward, (FeedForward,)
    yield getattr(layer.feed_forward, "dropout", None), (Dropout,)
    for residual in _residuals(layer):
        yield residual, (PreNorm, PostNorm)
        yield residual.norm, (nn.LayerNorm,)
        yield residual.dropout, (Dropout,)
    for heads in _heads(layer):
        yield heads, (Heads,)
        yield heads.attention, (Attention,)
        yield heads.attention.dropout, (nn.Dropout,)
        yield heads.attention.score, (Dot, ScaledDot)
        yield heads.attention.normaliser, (Softmax,)
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            yield module, (Linear,)


def _residuals(layer: EncoderLayer | DecoderLayer) -> tuple[Residual, ...]:
    if isinstance(layer, DecoderLayer):
        return layer.self_residual, layer.cross_residual, layer.feed_forward_residual
    return layer.self_residual, layer.feed_forward_residual


def _heads(layer: EncoderLayer | DecoderLayer) -> tuple[Heads, ...]:
    if isinstance(layer, DecoderLayer):
        return layer.self_attention.heads, layer.cross_attention.heads
    return (layer.self_attention.heads,)


def _settings(layer: EncoderLayer | DecoderLayer) -> tuple[object, ...]:
    """Settings that all layers must share."""
    feed_forward, heads = cast(FeedForward, layer.feed_forward), _heads(layer)
    return (
        *(part.num_heads for part in heads),
        *(kind_of(part.attention.score) for part in heads),
        *(cast(Softmax, part.attention.normaliser).temperature for part in heads),
        feed_forward.activation,
        feed_forward.inner.out_features,
        layer.self_attention.projection.in_features,
        layer.cross_attention.key.in_features if isinstance(layer, DecoderLayer) else None,
        kind_of(layer.self_residual),
    )


def _is_uniform(layer: EncoderLayer | DecoderLayer) -> bool:
    """Whether the parts of a layer agree on what the kernels have one number for, and its norms
    have weights."""
    residuals = _residuals(layer)
    if isinstance(layer, DecoderLayer):
        attention = layer.cross_attention
        if attention.key.in_features != attention.value.in_features:
            return False
    return (
        len(set(map(type, residuals))) == 1
        and len({heads.num_heads for heads in _heads(layer)}) == 1
        and all(_is_affine(residual.norm) for residual in residuals)
    )


def _is_affine(norm: nn.Module) -> bool:
    """Whether a module is a layer norm of the last axis, with a weight and a bias."""
    return (
        is_kind(norm, nn.LayerNorm)
        and len(norm.normalized_shape) == 1
        and norm.weight is not None
        and norm.bias is not None
    )
