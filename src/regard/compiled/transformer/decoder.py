"""Steps of the Transformer's decoder in C++ (`regard/kernels/models/step.cpp`), for a search on a
CPU in float32. A step is one call, where `TransformerDecoder` makes a call of PyTorch for each of
its parts; for few sentences these calls take most of the time.

    cache    layer x (key, value) x sentence x slot x size        tokens of all hypotheses
    memory   layer x (key, value) x sentence x source x size      the source, projected once

`TransformerDecoder` remains the reference: it computes whole targets, and every model with a part
that has no kernel.
"""

from __future__ import annotations

import ctypes
from typing import cast

import torch

from regard import kernels
from regard.attention import FullSpan, Softmax
from regard.attention.kv_cache import CachedVectors
from regard.attention.masks import none_if_full
from regard.attention.multihead import Heads
from regard.compiled.exact import is_exactly
from regard.compiled.native import NativeDecoder, attention_block, check_tokens
from regard.compiled.transformer.state import NativeState
from regard.compiled.transformer.support import is_supported
from regard.compiled.transformer.weights import DecoderWeights, Norm
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Rotary
from regard.layers.residual import PreNorm
from regard.models.contracts import AttentionBlock, DecoderOutput, Memory
from regard.models.memory import single_memory
from regard.models.transformer.decoder import TransformerDecoder, TransformerState
from regard.names import AttentionKind
from regard.numerics.panels import ACTIVATIONS, check_array
from regard.shapes import Float, Int, Tensor


@kernels.structure("DecoderStep")
class _Step(ctypes.Structure):
    """`DecoderStep` of regard/kernels/models/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "stored", "hypotheses", "layers")),
        *((name, ctypes.c_int64) for name in ("heads", "size", "inner", "positions", "filled")),
        *((name, ctypes.c_int64) for name in ("capacity", "source", "norm_first")),
        *((name, ctypes.c_int64) for name in ("activation", "threads")),
        *((name, ctypes.c_void_p) for name in ("layer", "states", "cache", "memory")),
        *((name, ctypes.c_void_p) for name in ("entries", "slots", "mask")),
        *((name, ctypes.c_void_p) for name in ("cosines", "sines", "room")),
        *((name, ctypes.c_void_p) for name in ("own", "cross")),
        ("last", Norm),
        *((name, ctypes.c_float) for name in ("self_scale", "cross_scale")),
        ("bytes", ctypes.c_int64 * 12),
    ]


class NativeTransformerDecoder(NativeDecoder[TransformerDecoder, DecoderWeights]):
    """Frozen decoder of a Transformer whose steps are computed in C++."""

    is_supported = staticmethod(is_supported)

    def start(self, memories: tuple[Memory, ...]) -> NativeState | TransformerState:
        memory = single_memory(memories)
        keys, mask = memory.keys, memory.mask
        weights = self._checked_weights(keys) if keys is memory.values else None
        if weights is None:
            return self.reference.start(memories)
        check_array("keys", keys, (*keys.shape[:2], weights.memory.inner))
        batch, source = keys.shape[:2]
        check_array("mask", mask, (batch, source), torch.bool)
        layers = len(self.reference.layers)
        projected = weights.memory.product(keys, weights.memory_bias)
        size = self.reference.projection.in_features
        rows = projected.view(batch, source, layers, 2, size).permute(2, 3, 0, 1, 4)
        return NativeState(
            rows.contiguous(),
            none_if_full(kernels.dense(mask)),
            CachedVectors.of(projected.new_empty(layers, 2, batch, 0, size)),
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
        decoder = self.reference
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
        weights: DecoderWeights,
        tokens: Int[Tensor, "batch hypothesis"],
        state: NativeState,
        need_weights: bool,
    ) -> tuple[DecoderOutput, NativeState]:
        decoder, size = self.reference, self.reference.projection.in_features
        state.check(len(decoder.layers), size)
        batch, num_hypotheses, position = state.slots.shape
        check_tokens(tokens, batch, num_hypotheses)
        positions = range(position, position + 1)
        states = kernels.dense(self._embedded(tokens, positions))
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
        rows, length = state.cache.storage.rows, state.cache.length
        arrays = states, rows, state.memory, kernels.dense(state.entries), slots, state.mask
        addresses, sizes = kernels.places(*arrays, cosines, sines, room, own, cross)
        problem = _Step(
            *(batch, rows.size(2), num_hypotheses, len(decoder.layers), num_heads, size),
            weights.inner,
            *(slots.size(2), length - num_hypotheses, rows.size(3), state.memory.size(3)),
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

    def _embedded(
        self, tokens: Int[Tensor, "batch hypothesis"], positions: range
    ) -> Float[Tensor, "batch hypothesis size"]:
        """Return what the embedder returns, without calls of its modules."""
        embedder = self.reference.embedder
        embeddings = torch.embedding(embedder.embedding.weight, tokens)
        return embedder.positions.add(embedder.scale * embeddings, positions)

    def _structures(self) -> DecoderWeights:
        return DecoderWeights.of(self.reference)


def _block(
    kind: AttentionKind, numbers: Float[Tensor, "2 batch layer head target source"], heads: Heads
) -> AttentionBlock:
    """Return the weights and scores of all layers as a block."""
    temperature = cast(Softmax, heads.attention.normaliser).temperature
    return attention_block(kind, numbers[0], numbers[1], temperature)


REPLACEMENTS = {
    TransformerDecoder: NativeTransformerDecoder.replacing,
    NativeTransformerDecoder: NativeTransformerDecoder.renewed,
}
