"""Steps of recurrent decoders in C++ (`regard/kernels/models/recurrent_step.cpp`), for a search on
a CPU in float32. A step is one call, where `BahdanauDecoder` and `LuongDecoder` make several calls
of PyTorch for each of their parts; for few sentences these calls take most of the time.

The plain decoder remains the reference: it computes whole targets, and every model with a part that
has no kernel.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import cast

import torch

from regard import kernels
from regard.attention import AdditiveKeys, Attention, Softmax
from regard.attention.hidden import without_hidden
from regard.attention.masks import none_if_full, padding
from regard.compiled.attention.attend import additive_score
from regard.compiled.attention.fused_additive import prepare
from regard.compiled.native import NativeDecoder, attention_block, check_tokens
from regard.compiled.recurrent.state import NativeState, keys_of
from regard.compiled.recurrent.support import feeding_of, is_supported
from regard.compiled.recurrent.weights import Weights
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import AttentionBlock, DecoderOutput, Memory
from regard.models.memory import PreparedMemory
from regard.models.recurrent.attention import CrossAttention, CrossAttentionState
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.models.recurrent.parts import RecurrentState
from regard.numerics.panels import PanelsStructure, check_array
from regard.shapes import Int, Tensor


@kernels.structure("RecurrentStep")
class _Step(ctypes.Structure):
    """`RecurrentStep` of regard/kernels/models/recurrent_step.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "stored", "hypotheses", "last_rows")),
        *((name, ctypes.c_int64) for name in ("layers", "size", "embedding", "words", "source")),
        *((name, ctypes.c_int64) for name in ("key", "value", "features", "kind")),
        *((name, ctypes.c_int64) for name in ("attends_first", "query_layer", "output", "feeds")),
        *((name, ctypes.c_int64) for name in ("is_additive", "is_split", "threads")),
        ("layer", ctypes.c_void_p),
        *((name, PanelsStructure) for name in ("query", "combined")),
        *((name, ctypes.c_void_p) for name in ("vector", "embeddings", "tokens", "entries")),
        *((name, ctypes.c_void_p) for name in ("parents", "keys", "values", "powers", "mask")),
        *((name, ctypes.c_void_p) for name in ("last_hidden", "last_cell", "last_fed")),
        *((name, ctypes.c_void_p) for name in ("hidden", "cell", "context", "result")),
        *((name, ctypes.c_void_p) for name in ("weights", "scores")),
        ("scale", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 19),
    ]


class NativeRecurrentDecoder(NativeDecoder[BahdanauDecoder | LuongDecoder, Weights]):
    """Frozen decoder with Bahdanau's or Luong's wiring whose steps are computed in C++."""

    is_supported = staticmethod(is_supported)

    def start(self, memories: tuple[Memory, ...]) -> NativeState | RecurrentState:
        plain = self.reference.start(memories)
        weights = self._checked_weights(plain.hidden)
        if weights is None:
            return plain
        memory = cast(CrossAttentionState, plain.attention).memory
        if {memory.values.dtype, plain.hidden.dtype} != {torch.float32}:
            return plain
        memory, cell = _with_whole_mask(memory), plain.cell
        batch = len(memory.mask)
        if len(plain.hidden) != batch:
            raise ValueError(
                f"summary: expected one row for each of the {batch} sentences of the memory, got "
                f"{len(plain.hidden)}"
            )
        visible = none_if_full(memory.mask)
        state = NativeState(
            _dense(memory),
            None if visible is None else kernels.dense(visible[:, 0]),
            torch.arange(batch, device="cpu"),
            kernels.dense(plain.hidden[:, 0].transpose(0, 1)),
            None if cell is None else kernels.dense(cell[:, 0].transpose(0, 1)),
            kernels.dense(plain.fed[:, 0]),
            torch.arange(batch, device="cpu")[:, None],
        )
        self._check(state, weights)
        return state

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: NativeState | RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, NativeState | RecurrentState]:
        if isinstance(state, NativeState):
            weights = self._usable_weights(state.memory.values)
            if weights is not None:
                return self._step(weights, tokens, state, need_weights)
            state = state.plain()
        return self.reference.step(tokens, state, need_weights=need_weights)

    def _step(
        self,
        weights: Weights,
        tokens: Int[Tensor, "batch hypothesis"],
        state: NativeState,
        need_weights: bool,
    ) -> tuple[DecoderOutput, NativeState]:
        self._check(state, weights)
        parts, keys, values = self.reference.parts, state.keys, state.memory.values
        (num_layers, last_rows, size), (stored, source, key_size) = state.hidden.shape, keys.shape
        batch, num_hypotheses = state.parents.shape
        check_tokens(tokens, batch, num_hypotheses)
        num_rows = batch * num_hypotheses
        hidden = keys.new_empty(num_layers, num_rows, size)
        cell = None if state.cell is None else torch.empty_like(hidden)
        context = keys.new_empty(num_rows, values.size(2))
        features = keys.new_empty(batch, num_hypotheses, parts.output.feature_size)
        attention: tuple[Tensor | None, ...] = (None, None)
        if need_weights:
            attention = keys.new_empty(2, batch, 1, 1, num_hypotheses, source).unbind()
        tokens, powers = kernels.dense(tokens.long()), state.powers
        addresses, sizes = kernels.places(
            *(weights.vector, weights.embeddings, tokens, state.entries, state.parents),
            *(keys, values, powers, state.mask, state.hidden, state.cell, state.fed),
            *(hidden, cell, context, features, *attention),
        )
        problem = _Step(
            *(batch, stored, num_hypotheses, last_rows, num_layers, size),
            *(weights.embeddings.size(1), len(weights.embeddings), source, key_size),
            *(values.size(2), features.size(2)),
            *weights.settings,
            powers is not None and powers.size(2) != key_size,
            torch.get_num_threads(),
            ctypes.addressof(weights.layers),
            weights.query,
            weights.combined,
            *addresses,
            weights.scale,
            (ctypes.sizeof(weights.layers), *sizes),
        )
        kernels.call("recurrent_step", problem)
        state = replace(
            state,
            hidden=hidden,
            cell=cell,
            fed=feeding_of(self.reference)(context, features.flatten(0, 1)),
            parents=torch.arange(num_rows, device="cpu").view(batch, num_hypotheses),
        )
        return DecoderOutput(features, self._blocks(*attention)), state

    def _blocks(self, weights: Tensor | None, scores: Tensor | None) -> tuple[AttentionBlock, ...]:
        """Return weights and scores as a block. The kernel does not scale additive scores."""
        if weights is None or scores is None:
            return ()
        cross = cast(CrossAttention, self.reference.attention)
        attention, temperature = cast(Attention, cross.attention), 1.0
        if additive_score(attention) is None:
            temperature = cast(Softmax, attention.normaliser).temperature
        return (attention_block(cross.kind, weights, scores, temperature),)

    def _check(self, state: NativeState, weights: Weights) -> None:
        stack, feeding = (
            cast(RecurrentStack, self.reference.parts.stack),
            feeding_of(self.reference),
        )
        sizes = weights.key_size, state.memory.values.size(-1), feeding.size
        state.check(stack.num_layers, stack.hidden_size, sizes)

    def _structures(self) -> Weights:
        return Weights.of(self.reference)


def _with_whole_mask(memory: PreparedMemory) -> PreparedMemory:
    """Return the memory with a mask of all its keys. A mask with one row or one column is expanded.
    ValueError for another shape or type, also if every number is true."""
    batch, source = keys_of(memory).shape[:2]
    mask = memory.mask[:, 0]
    if mask.dim() == 2 and len(mask) in (1, batch) and mask.size(1) in (1, source):
        mask = mask.expand(batch, source)
    check_array("mask", mask, (batch, source), torch.bool)
    return replace(memory, mask=padding(mask))


def _dense(memory: PreparedMemory) -> PreparedMemory:
    """Return the memory as contiguous arrays. If numbers at hidden positions could have an
    influence, they are zeros: a weight of zero does not hide NaN."""
    prepared, mask = memory.prepared, memory.mask
    values = kernels.dense(without_hidden(memory.values, mask))
    if not isinstance(prepared, AdditiveKeys):
        return PreparedMemory(kernels.dense(without_hidden(prepared, mask)), values, mask)
    keys = without_hidden(prepared.projected, mask)
    if keys is not prepared.projected or prepared.powers is None:
        prepared = prepare(AdditiveKeys(keys))
    powers = None if prepared.powers is None else kernels.dense(prepared.powers)
    return PreparedMemory(AdditiveKeys(kernels.dense(keys), powers), values, mask)


REPLACEMENTS = {
    BahdanauDecoder: NativeRecurrentDecoder.replacing,
    LuongDecoder: NativeRecurrentDecoder.replacing,
    NativeRecurrentDecoder: NativeRecurrentDecoder.renewed,
}
