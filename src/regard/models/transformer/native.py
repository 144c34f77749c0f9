"""Steps of the Transformer's decoder in C++ (`regard/kernels/step.cpp`), for a search on a CPU in
float32. A step is one call, where `TransformerDecoder` makes a call of PyTorch for each of its
parts; for few sentences these calls take most of the time.

    cache    layer x (key, value) x sentence x slot x size        tokens of all hypotheses
    memory   layer x (key, value) x sentence x source x size      the source, projected once

`TransformerDecoder` remains the reference: it computes whole targets, and every model with a part
that has no kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn

from regard import kernels
from regard.attention import Attention, FullSpan, KVCache, PreparedHeads, Softmax
from regard.attention.dot.choose import dot_scale
from regard.attention.kv_cache import CachedVectors
from regard.attention.masks import none_if_full, padding
from regard.attention.multihead import Heads, MultiHeadAttention, MultiHeadSelfAttention
from regard.attention.scores import Dot, ScaledDot
from regard.fast_path import are_unchanged, is_cast, is_exactly
from regard.layers.dropout import Dropout
from regard.layers.embedder import Embedder
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Learned, Rotary, Sinusoidal
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.linear import Linear, PackedWeight, panels_of
from regard.models.contracts import AttentionBlock, DecoderOutput, Memory
from regard.models.memory import single_memory
from regard.models.transformer.decoder import (
    DecoderLayer,
    TransformerDecoder,
    TransformerState,
)
from regard.names import AttentionKind
from regard.panels import ACTIVATIONS, Panels, PanelsStructure, check_array
from regard.shapes import Bool, Float, Int, Tensor

MIN_CAPACITY = 64
"""Minimum number of slots of a new cache."""


class _Arrays(list[Tensor]):
    """Arrays that structures refer to. A parameter that is replaced later stays here, so that its
    memory is not freed."""

    def add(self, name: str, parameter: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return the numbers of a parameter. ValueError if they have another shape, type or
        device."""
        check_array(name, parameter, shape)
        self.append(kernels.dense(parameter.detach()))
        return self[-1]


@kernels.structure("Norm")
class _Norm(ctypes.Structure):
    """`Norm` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "bias")),
        ("epsilon", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 2),
    ]

    @classmethod
    def of(cls, norm: nn.Module, arrays: _Arrays) -> _Norm:
        """Return the structure of a layer norm, or that of the identity."""
        if not isinstance(norm, nn.LayerNorm):
            return cls()
        shape = tuple(norm.normalized_shape)
        addresses, sizes = kernels.places(
            arrays.add("weight of a layer norm", norm.weight, shape),
            arrays.add("bias of a layer norm", norm.bias, shape),
        )
        return cls(*addresses, norm.eps, sizes)


@kernels.structure("DecoderLayer")
class _Layer(ctypes.Structure):
    """`DecoderLayer` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, PanelsStructure) for name in ("projection", "self_output", "query")),
        *((name, PanelsStructure) for name in ("cross_output", "inner", "outer")),
        *((name, _Norm) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
    ]


@kernels.structure("DecoderStep")
class _Step(ctypes.Structure):
    """`DecoderStep` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "stored", "hypotheses", "layers")),
        *((name, ctypes.c_int64) for name in ("heads", "size", "inner", "positions", "filled")),
        *((name, ctypes.c_int64) for name in ("capacity", "source", "norm_first")),
        *((name, ctypes.c_int64) for name in ("activation", "threads")),
        *((name, ctypes.c_void_p) for name in ("layer", "states", "cache", "memory")),
        *((name, ctypes.c_void_p) for name in ("entries", "slots", "mask")),
        *((name, ctypes.c_void_p) for name in ("cosines", "sines", "room")),
        *((name, ctypes.c_void_p) for name in ("own", "cross")),
        ("last", _Norm),
        *((name, ctypes.c_float) for name in ("self_scale", "cross_scale")),
        ("bytes", ctypes.c_int64 * 12),
    ]


@dataclass
class _Cache:
    """Keys and values of all layers, with room for more; the first `filled` slots are in use."""

    rows: Float[Tensor, "layer 2 stored capacity size"]
    filled: int


@dataclass(frozen=True)
class NativeState:
    """Keys and values of the source and of the tokens before, and the slots of each hypothesis. As
    in `TransformerState`, states share a cache until one of them needs a slot that another uses.

    Keys and values of sentences that are done stay where they are: `entries` has the number of each
    sentence among the stored ones, so no key is copied when sentences leave the batch."""

    memory: Float[Tensor, "layer 2 stored source size"]
    mask: Bool[Tensor, "stored source"] | None
    cache: _Cache
    length: int
    """Number of slots of this state."""
    entries: Int[Tensor, "batch"]
    slots: Int[Tensor, "batch hypothesis position"]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> NativeState:
        index = hypotheses[:, :, None].expand(-1, -1, self.slots.size(2))
        return replace(self, slots=self.slots.gather(1, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> NativeState:
        kept = replace(self, entries=self.entries[sentences], slots=self.slots[sentences])
        if len(set(sentences.tolist())) == len(sentences):
            return kept
        return replace(
            kept,
            memory=self.memory.index_select(2, kept.entries),
            mask=None if self.mask is None else self.mask[kept.entries],
            cache=_Cache(self.cache.rows.index_select(2, kept.entries), self.length),
            entries=torch.arange(len(sentences), device="cpu"),
        )

    def check(self, num_layers: int, size: int) -> None:
        """ValueError unless this is a state of a decoder with these layers."""
        if not self.slots.dim() == 3 or not self.memory.dim() == self.cache.rows.dim() == 5:
            raise ValueError("state: expected one that start or step of this decoder returned")
        stored, source, capacity = *self.memory.shape[2:4], self.cache.rows.size(3)
        arrays = [
            ("memory", self.memory, (num_layers, 2, stored, source, size), torch.float32),
            ("cache", self.cache.rows, (num_layers, 2, stored, capacity, size), torch.float32),
            ("entries", self.entries, (len(self.slots),), torch.int64),
            ("slots", self.slots, tuple(self.slots.shape), torch.int64),
        ]
        if self.mask is not None:
            arrays.append(("mask", self.mask, (stored, source), torch.bool))
        for name, array, shape, dtype in arrays:
            check_array(f"{name} of the state", array, shape, dtype)
            if name not in ("entries", "slots") and not array.is_contiguous():
                raise ValueError(f"{name} of the state: expected a contiguous array")
        if not 0 <= self.length <= capacity:
            raise ValueError(
                f"length of the state: expected 0 to {capacity} slots, got {self.length}"
            )

    def with_new_slots(self) -> NativeState:
        """Return the state with one more slot for every hypothesis, for its next token."""
        batch, num_hypotheses, _ = self.slots.shape
        length = self.length + num_hypotheses
        new = torch.arange(self.length, length, device="cpu").expand(batch, -1)[:, :, None]
        cache = self.cache
        if cache.filled != self.length or length > cache.rows.size(3):
            shape = list(cache.rows.shape)
            shape[3] = max(2 * length, MIN_CAPACITY)
            cache = _Cache(cache.rows.new_empty(shape), self.length)
            cache.rows[:, :, :, : self.length] = self.cache.rows[:, :, :, : self.length]
        cache.filled = length
        slots = torch.cat([self.slots, new], dim=2)
        return replace(self, cache=cache, length=length, slots=slots)

    def plain(self, num_heads: int) -> TransformerState:
        """Return the state of the reference."""

        def heads(rows: Tensor) -> Tensor:
            return rows.unflatten(-1, (num_heads, -1)).transpose(1, 2)

        entries = self.entries
        memory = tuple(PreparedHeads(*map(heads, layer)) for layer in self.memory[:, :, entries])
        cached = self.cache.rows[:, :, entries, : self.length]
        caches = tuple(
            KVCache(tuple(CachedVectors.of(heads(rows)) for rows in layer)) for layer in cached
        )
        if not self.length:
            caches = (KVCache(),) * len(cached)
        mask = None if self.mask is None else padding(self.mask[entries])
        return TransformerState(memory, mask, caches, self.slots)


@dataclass(frozen=True)
class _Weights:
    """Weights of all layers in panels, for one instruction set. `layers` and `last` refer to
    `panels` and `arrays`."""

    layers: Any
    last: _Norm
    memory: Panels
    """Projections to keys and values of the source, of all layers."""
    memory_bias: Float[Tensor, "_"]
    inner: int
    scales: tuple[float, float]
    lanes: int
    panels: list[Panels]
    arrays: _Arrays

    @classmethod
    def of(cls, decoder: TransformerDecoder) -> _Weights:
        layers = list(decoder.layers)
        panels: list[Panels] = []
        arrays = _Arrays()

        def packed(linear: Linear) -> PanelsStructure:
            panels.append(panels_of(linear.weight))
            if linear.bias is None:
                return panels[-1].structure(None)
            shape = (linear.out_features,)
            return panels[-1].structure(arrays.add("bias of a linear layer", linear.bias, shape))

        structures = (_Layer * len(layers))(
            *(
                _Layer(
                    packed(layer.self_attention.projection),
                    packed(layer.self_attention.heads.output),
                    packed(layer.cross_attention.query),
                    packed(layer.cross_attention.heads.output),
                    packed(cast(FeedForward, layer.feed_forward).inner),
                    packed(cast(FeedForward, layer.feed_forward).outer),
                    _Norm.of(layer.self_residual.norm, arrays),
                    _Norm.of(layer.cross_residual.norm, arrays),
                    _Norm.of(layer.feed_forward_residual.norm, arrays),
                )
                for layer in layers
            )
        )
        attention = [layer.cross_attention for layer in layers]
        parts = [part for each in attention for part in (each.key, each.value)]
        memory = Panels.of(torch.cat([_plain(part.weight) for part in parts]))
        memory_bias = torch.cat([_bias(part) for part in parts])
        first = layers[0]
        size = first.self_attention.projection.in_features // first.self_attention.heads.num_heads
        scales = tuple(
            cast(float, dot_scale(heads.attention.score, heads.attention.normaliser, size))
            for heads in (first.self_attention.heads, first.cross_attention.heads)
        )
        inner = cast(FeedForward, first.feed_forward).inner.out_features
        last, lanes = _Norm.of(decoder.norm, arrays), kernels.lanes()
        return cls(
            structures, last, memory, memory_bias, inner, cast(Any, scales), lanes, panels, arrays
        )


def _plain(weight: Tensor) -> Tensor:
    return weight.plain() if isinstance(weight, PackedWeight) else weight.detach()


def _bias(linear: nn.Linear) -> Tensor:
    """Return the bias of a layer; zeros for a layer without one."""
    if linear.bias is not None:
        return linear.bias.detach()
    return torch.zeros(linear.out_features, dtype=torch.float32, device="cpu")


class NativeTransformerDecoder(nn.Module):
    """Frozen decoder of a Transformer whose steps are computed in C++.

    The first search makes structures of the weights, which copies and pickles do not have. The
    decoder's parts must not be replaced after that. Steps are those of the decoder itself with
    gradients, autocast or hooks, in training, and for other types and devices."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        """ValueError for a decoder with a part that has no kernel."""
        super().__init__()
        if not has_kernels(decoder):
            raise ValueError("decoder: a part has no kernel; use the decoder itself")
        self.decoder = decoder
        self._weights: _Weights | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_weights": None}

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Convert the parameters, for example to another type, and forget their structures."""
        self._weights = None
        return super()._apply(function, recurse)

    def folded(self) -> nn.Module:
        """Return a native decoder, for a model that is frozen twice: its decoder is folded
        first."""
        decoder: nn.Module = self.decoder
        return decoder if isinstance(decoder, NativeTransformerDecoder) else self

    @property
    def num_memories(self) -> int:
        return self.decoder.num_memories

    @property
    def projection(self) -> nn.Linear:
        return self.decoder.projection

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        output: DecoderOutput = self.decoder(inputs, memories, need_weights=need_weights)
        return output

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.decoder.project(features)

    def start(self, memories: tuple[Memory, ...]) -> NativeState | TransformerState:
        memory = single_memory(memories)
        keys, mask = memory.keys, memory.mask
        is_usable = keys is memory.values and are_unchanged(self.decoder)
        weights = self._usable_weights(keys) if is_usable else None
        if weights is None:
            return self.decoder.start(memories)
        check_array("keys", keys, (*keys.shape[:2], weights.memory.inner))
        batch, source = keys.shape[:2]
        check_array("mask", mask, (batch, source), torch.bool)
        layers = len(self.decoder.layers)
        projected = weights.memory.product(keys, weights.memory_bias)
        size = self.decoder.projection.in_features
        rows = projected.view(batch, source, layers, 2, size).permute(2, 3, 0, 1, 4)
        return NativeState(
            rows.contiguous(),
            none_if_full(kernels.dense(mask)),
            _Cache(projected.new_empty(layers, 2, batch, 0, size), 0),
            0,
            torch.arange(batch, device="cpu"),
            torch.empty(batch, 1, 0, dtype=torch.long, device="cpu"),
        )

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: NativeState | TransformerState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, NativeState | TransformerState]:
        decoder = self.decoder
        if isinstance(state, NativeState):
            # scores of positions outside a span are not computed
            has_kernel = not need_weights or type(decoder.span) is FullSpan
            weights = self._usable_weights(state.memory) if has_kernel else None
            if weights is not None:
                return self._step(weights, tokens, state, need_weights)
            state = state.plain(decoder.layers[0].self_attention.heads.num_heads)
        return decoder.step(tokens, state, need_weights=need_weights)

    def _step(
        self,
        weights: _Weights,
        tokens: Int[Tensor, "batch hypothesis"],
        state: NativeState,
        need_weights: bool,
    ) -> tuple[DecoderOutput, NativeState]:
        decoder, size = self.decoder, self.decoder.projection.in_features
        state.check(len(decoder.layers), size)
        batch, num_hypotheses, position = state.slots.shape
        dtype = torch.int32 if tokens.dtype == torch.int32 else torch.int64
        check_array("tokens", tokens, (batch, num_hypotheses), dtype)
        positions = range(position, position + 1)
        states = kernels.dense(decoder.embedder(tokens, positions))
        check_array("embeddings", states, (batch, num_hypotheses, size))
        state = state.with_new_slots()
        slots = kernels.dense(decoder.span.visible_slots(state.slots))
        layer = decoder.layers[0]
        num_heads = layer.self_attention.heads.num_heads
        cosines, sines = None, None
        if isinstance(decoder.embedder.positions, Rotary):
            like = states.new_empty(1, size // num_heads)
            cosines, sines = decoder.embedder.positions.cosines_and_sines(positions, like)
        room = states.new_empty(batch, num_hypotheses, weights.inner + 4 * size)
        own, cross = None, None
        if need_weights:
            axes = (2, batch, len(decoder.layers), num_heads, num_hypotheses)
            own = states.new_empty(*axes, slots.size(2))
            cross = states.new_empty(*axes, state.memory.size(3))
        rows = state.cache.rows
        arrays = states, rows, state.memory, kernels.dense(state.entries), slots, state.mask
        addresses, sizes = kernels.places(*arrays, cosines, sines, room, own, cross)
        problem = _Step(
            *(batch, rows.size(2), num_hypotheses, len(decoder.layers), num_heads, size),
            weights.inner,
            *(slots.size(2), state.length - num_hypotheses, rows.size(3), state.memory.size(3)),
            is_exactly(layer.self_residual, PreNorm),
            ACTIVATIONS.index(cast(FeedForward, layer.feed_forward).activation),
            torch.get_num_threads(),
            ctypes.addressof(weights.layers),
            *addresses,
            weights.last,
            *weights.scales,
            (ctypes.sizeof(weights.layers), *sizes),
        )
        kernels.call("decoder_step", problem)
        if own is None or cross is None:
            return DecoderOutput(states), state
        attention = (
            _block(decoder.kind, cross, layer.cross_attention.heads),
            _block("decoder", own, layer.self_attention.heads),
        )
        return DecoderOutput(states, attention), state

    def _usable_weights(self, like: Tensor) -> _Weights | None:
        """Return the weights in panels if the kernels can compute a step for such inputs."""
        if like.dtype != torch.float32 or torch.is_grad_enabled() or not kernels.suit(like):
            return None
        if self.training or is_cast(like):
            return None
        if self._weights is None or self._weights.lanes != kernels.lanes():
            self._weights = _Weights.of(self.decoder)
        return self._weights


def _block(
    kind: AttentionKind, numbers: Float[Tensor, "2 batch layer head target source"], heads: Heads
) -> AttentionBlock:
    """Return weights and scores as a block. Scores exclude the temperature."""
    temperature = cast(Softmax, heads.attention.normaliser).temperature
    return AttentionBlock(kind, numbers[0], numbers[1] * temperature)


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
