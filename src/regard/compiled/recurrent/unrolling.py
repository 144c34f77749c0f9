"""Teacher forcing of recurrent decoders with additive attention: all steps of a target, or of its
lowest layer, by one operator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from regard.attention import AdditiveKeys, Attention
from regard.attention.scores import AdditiveScore
from regard.compiled.attention.attend import additive_score
from regard.compiled.attention.fused_additive import additive_scores
from regard.compiled.exact import (
    are_unchanged,
    has_own_methods,
    is_exactly,
    is_kind,
    kind_of,
)
from regard.compiled.recurrent.fused_loop import Loop, run
from regard.compiled.recurrent.stacks import TWINS, AnyStack, is_exact
from regard.layers.dropout import Dropout
from regard.layers.recurrent.fast_forward_stack import FastForwardStack
from regard.layers.recurrent.layers import step_weights
from regard.layers.recurrent.residual_stack import ResidualStack
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import AttentionBlock, DecoderOutput
from regard.models.recurrent.attention import (
    CrossAttention,
    CrossAttentionState,
    DecoderAttention,
    GatedAttention,
)
from regard.models.recurrent.bases import AttendingDecoder
from regard.models.recurrent.parts import DecoderParts, RecurrentState
from regard.models.recurrent.queries import StateQuery
from regard.names import AttentionKind, CellKind
from regard.numerics.linear import Linear, affine, is_packed
from regard.numerics.precision import precise_type
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class FusedAttention:
    """Decoder attention whose steps one operator computes."""

    layers: tuple[nn.Module, ...]
    """Recurrent layers that the operator computes with the attention, lowest first."""
    cell: CellKind
    layer_dropout: nn.Dropout
    """Dropout between these layers."""
    kind: AttentionKind
    score: AdditiveScore
    scale: float
    """Factor of the scores."""
    dropout: nn.Dropout
    """Dropout of the weights."""
    gate: nn.Linear | None
    """Layer that computes the gate of the context from the state of the query."""


def fused_attention(decoder: AttendingDecoder) -> FusedAttention | None:
    """Return the attention as the operator of the whole loop needs it, or None if the operator
    cannot compute this decoder, in which only the context and the state enter the next step.

    The highest state must query one memory by additive attention. No weight may be packed, as the
    operator splits the lowest layer's weight. The operator replaces every module inside the loop,
    so each must be of exactly the type that it implements, without hooks or replaced methods."""
    stack = decoder.parts.stack
    if not is_kind(stack, RecurrentStack):
        return None
    return _fused_attention(decoder, stack, tuple(stack.layers), query_layer=-1)


def fused_lowest(decoder: AttendingDecoder) -> FusedAttention | None:
    """Return `fused_attention` for the lowest layer alone, whose state must be the query. The
    layers above it have no part in the loop: they are computed when all contexts are known. A gate
    reads the state of the highest layer, so there may be none above one layer."""
    stack = decoder.parts.stack
    match stack:
        case RecurrentStack() | ResidualStack():
            layer = stack.layers[0]
        case FastForwardStack():
            layer = stack.columns[0].get_submodule("0")
        case _:
            return None
    query_layer = 0 if stack.num_layers > 1 else -1
    fused = _fused_attention(decoder, stack, (layer,), query_layer=query_layer)
    return None if fused is None or (fused.gate and query_layer == 0) else fused


def _fused_attention(
    decoder: AttendingDecoder,
    stack: AnyStack,
    layers: tuple[nn.Module, ...],
    *,
    query_layer: int,
) -> FusedAttention | None:
    if needs_formula() or has_own_methods(decoder) or not is_exactly(decoder.parts, DecoderParts):
        return None
    if not are_unchanged(decoder.attention) or not are_unchanged(stack):
        return None
    cross, gate = _without_gate(decoder.attention)
    if type(cross) is not CrossAttention or not is_kind(cross.attention, Attention):
        return None
    additive = additive_score(cross.attention)
    if additive is None or type(cross.query) is not StateQuery or cross.query.layer != query_layer:
        return None
    score, scale = additive
    linears = [*score.children(), *([gate] if gate else [])]
    is_implemented = (
        kind_of(stack) in TWINS
        and is_exact(stack)
        and kind_of(stack.dropout) in (Dropout, nn.Dropout)
        and type(cross.attention.dropout) is nn.Dropout
        and all(type(module) in (Linear, nn.Linear) for module in linears)
        and not any(map(is_packed, stack.parameters()))
    )
    if not is_implemented:
        return None
    return FusedAttention(
        layers, stack.kind, stack.dropout, cross.kind, score, scale, cross.attention.dropout, gate
    )


def unroll_fused(
    parts: DecoderParts,
    attention: FusedAttention,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
    *,
    attend_first: bool,
    need_weights: bool,
) -> DecoderOutput:
    """Compute `unroll` by one operator, at least in float32.

    `attend_first`: the state before each step is the query (Bahdanau); otherwise the state after
    it (Luong). ValueError for a state of other attention."""
    embedded = parts.embed(inputs)
    result = run_fused(
        attention, embedded, state, attend_first=attend_first, need_weights=need_weights
    )
    features = parts.features(result.top, result.contexts, embedded)
    return DecoderOutput(features, result.attention)


def unroll_lowest(
    parts: DecoderParts,
    attention: FusedAttention,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
    *,
    need_weights: bool,
) -> DecoderOutput:
    """Compute `unroll` of a decoder that attends first: the lowest layer and the contexts by one
    operator, then every layer above for all positions. `attention` is that of `fused_lowest`."""
    embedded = parts.embed(inputs)
    lowest = run_fused(attention, embedded, state, attend_first=True, need_weights=need_weights)
    context = lowest.contexts
    layers = parts.stack.above(
        torch.cat([embedded, context], dim=-1),
        lowest.top,
        state.hidden[:, 0],
        None if state.cell is None else state.cell[:, 0],
    )
    features = parts.features(layers.top, context, embedded)
    return DecoderOutput(features, lowest.attention)


@dataclass(frozen=True)
class FusedRun:
    """States of the highest layer that the operator computes, contexts after the gate, and
    attention weights (if `need_weights` was set)."""

    top: Float[Tensor, "batch target hidden"]
    contexts: Float[Tensor, "batch target value"]
    attention: tuple[AttentionBlock, ...]


def run_fused(
    attention: FusedAttention,
    embedded: Float[Tensor, "batch target embedding"],
    state: RecurrentState,
    *,
    attend_first: bool,
    need_weights: bool,
) -> FusedRun:
    """Compute the layers and the contexts of all steps by the operator, as `unroll_fused`."""
    memory = state.attention.memory if isinstance(state.attention, CrossAttentionState) else None
    if memory is None or not isinstance(memory.prepared, AdditiveKeys):
        raise ValueError("state: expected that of cross-attention with an additive score")
    keys, score, gate = memory.prepared.projected, attention.score, attention.gate
    num_layers = len(attention.layers)
    parameters = [weight for layer in attention.layers for weight in step_weights(layer)]
    input_weight, context_weight = parameters[0].tensor_split([embedded.size(-1)], dim=1)
    batch, target, size = *embedded.shape[:2], state.hidden.size(-1)
    num_keys = memory.values.size(1)
    loop = Loop(
        input_gates=affine(embedded, input_weight, parameters[1]),
        hidden=state.hidden[:, 0, :num_layers],
        cell=None if state.cell is None else state.cell[:, 0, :num_layers],
        keys=keys,
        values=memory.values,
        vector=score.vector,
        query_weight=score.query_weight,
        context_weight=context_weight,
        gate_weight=None if gate is None else gate.weight,
        gate_bias=None if gate is None else gate.bias,
        parameters=parameters[2:],
        mask=memory.mask,
        attention_dropout=_factors(attention.dropout, state.hidden, batch, target, num_keys),
        layer_dropout=_factors(
            attention.layer_dropout, state.hidden, target, num_layers - 1, batch, size
        ),
        scale=attention.scale,
        kind=attention.cell,
        attend_first=attend_first,
    )
    result = run(loop.to(precise_type(memory.values.dtype)))
    # a frozen bfloat16 model has no autocast: layers accept inputs of their own dtype only
    top, contexts = result.top.to(embedded.dtype), result.contexts.to(embedded.dtype)
    query_states = top
    if attend_first:
        first = state.hidden[:, :, num_layers - 1].to(top.dtype)
        query_states = torch.cat([first, top[:, :-1]], dim=1)
    if gate is not None:
        contexts = torch.sigmoid(gate(query_states)) * contexts
    if not need_weights:
        return FusedRun(top, contexts, ())
    queries = score.project_queries(query_states)
    scores = additive_scores(queries, keys, score.vector)
    block = AttentionBlock(attention.kind, result.weights[:, None, None], scores[:, None, None])
    return FusedRun(top, contexts, (block,))


def _without_gate(
    attention: DecoderAttention,
) -> tuple[DecoderAttention, nn.Linear | None]:
    """Return decoder attention without its gate, and the gate, if there is one."""
    if type(attention) is GatedAttention:
        return attention.attention, attention.gate
    return attention, None


def _factors(dropout: nn.Dropout, like: Tensor, *shape: int) -> Tensor | None:
    """Return the factors of dropout for a tensor of this shape; None if dropout has no effect."""
    if not dropout.training or dropout.p == 0 or 0 in shape:
        return None
    return dropout(like.new_ones(shape))
