"""A whole target for a decoder whose context enters its next state: step by step, or, where its
attention is additive, by one operator that does the same.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import AdditiveKeys, Attention, additive_scores
from regard.fast_path import are_unchanged, needs_formula
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import RecurrentStack, step_weights
from regard.linear import Linear, affine, is_packed
from regard.models.contracts import AttentionBlock, Decoder, DecoderOutput
from regard.models.recurrent.attention import (
    CrossAttention,
    CrossAttentionState,
    DecoderAttention,
    GatedAttention,
)
from regard.models.recurrent.fused_loop import Loop, run
from regard.models.recurrent.parts import DecoderParts, RecurrentState
from regard.models.recurrent.queries import StateQuery
from regard.precise import precise_type
from regard.shapes import Float, Int, Tensor


def unroll(
    decoder: Decoder, inputs: Int[Tensor, "batch target"], state: RecurrentState, need_weights: bool
) -> DecoderOutput:
    """All steps one after the other, for wirings in which a context enters the next state."""
    steps = []
    for tokens in inputs.split(1, dim=1):
        output, state = decoder.step(tokens, state, need_weights=need_weights)
        steps.append(output)
    return DecoderOutput(torch.cat([step.features for step in steps], dim=1), _join(steps))


def _join(steps: list[DecoderOutput]) -> tuple[AttentionBlock, ...]:
    """The attention of single steps as blocks along the target axis. A look at what is written sees
    more at each step: what was not there yet has no weight."""
    joined = []
    for blocks in zip(*(step.attention for step in steps), strict=True):
        weights = _along([block.weights for block in blocks], 0.0)
        scores = [block.scores for block in blocks if block.scores is not None]
        before = _along(scores, -torch.inf) if scores else None
        places = [block.drawn for block in blocks if block.drawn is not None]
        drawn = torch.cat(places, dim=3) if places else None
        joined.append(AttentionBlock(blocks[0].kind, weights, before, drawn))
    return tuple(joined)


def _along(steps: list[Tensor], absent: float) -> Float[Tensor, "batch layer head target source"]:
    width = max(step.size(-1) for step in steps)
    padded = [F.pad(step, (0, width - step.size(-1)), value=absent) for step in steps]
    return torch.cat(padded, dim=3)


def can_fuse(parts: DecoderParts, look: DecoderAttention) -> bool:
    """Whether the loop over all steps can be one operator, if nothing but the context and the state
    enters the next step: the highest state asks one memory, attention is additive, and no weights
    are packed, which could not be taken apart.

    The operator takes the place of every module inside the loop, so each has to be exactly the
    type that it implements, without hooks."""
    if needs_formula() or not are_unchanged(look) or not are_unchanged(parts.stack):
        return False
    look, gate = _ungated(look)
    if type(look) is not CrossAttention or type(look.attention) is not Attention:
        return False
    additive = look.attention.additive
    if additive is None or type(look.query) is not StateQuery or look.query.layer != -1:
        return False
    stack, products = parts.stack, [additive[0].query_module, *([gate] if gate else [])]
    return (
        type(stack) is RecurrentStack
        and stack.is_exact()
        and type(stack.dropout) in (Dropout, nn.Dropout)
        and type(look.attention.dropout) is nn.Dropout
        and all(type(module) in (Linear, nn.Linear) for module in products)
        and not any(map(is_packed, stack.parameters()))
    )


def unroll_fused(
    parts: DecoderParts,
    look: DecoderAttention,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
    *,
    attend_first: bool,
    need_weights: bool,
) -> DecoderOutput:
    """What `unroll` computes, by one operator, for a decoder that asks before its new state
    (Bahdanau) or after it (Luong). At least in float32. ValueError for a look that
    `can_fuse` refuses."""
    look, gate = _ungated(look)
    if not isinstance(look, CrossAttention) or not isinstance(state.look, CrossAttentionState):
        raise ValueError("only a look at one memory can be one operator")
    memory, attention = state.look.memory, look.attention
    additive = attention.additive
    if (
        additive is None
        or not isinstance(attention, Attention)
        or not isinstance(memory.prepared, AdditiveKeys)
    ):
        raise ValueError("only a loop of additive attention can be one operator")
    score, scale = additive
    stack, embedded = parts.stack, parts.embed(inputs)
    weights = [weight for layer in stack.layers for weight in step_weights(layer)]
    known, context = weights[0].tensor_split([embedded.size(-1)], dim=1)
    batch, target, size = *inputs.shape, state.hidden.size(-1)
    numbers, num_keys = state.hidden, memory.values.size(1)
    loop = Loop(
        of_input=affine(embedded, known, weights[1]),
        hidden=state.hidden[:, 0],
        cell=None if state.cell is None else state.cell[:, 0],
        keys=memory.prepared.projected,
        values=memory.values,
        vector=score.vector,
        query=score.query_weight,
        context=context,
        gate=None if gate is None else gate.weight,
        gate_bias=None if gate is None else gate.bias,
        weights=weights[2:],
        mask=memory.mask,
        drop=_drops(attention.dropout, numbers, batch, target, num_keys),
        between=_drops(stack.dropout, numbers, target, stack.num_layers - 1, batch, size),
        scale=scale,
        kind=stack.kind,
        attend_first=attend_first,
    )
    reading = run(loop.to(precise_type(memory.values.dtype)))
    # a frozen bfloat16 model has no autocast: layers accept inputs of their own dtype only
    top, contexts = reading.top.to(embedded.dtype), reading.contexts.to(embedded.dtype)
    asked_by = top
    if attend_first:
        first = state.hidden[:, :, -1].to(top.dtype)
        asked_by = torch.cat([first, top[:, :-1]], dim=1)
    if gate is not None:
        contexts = torch.sigmoid(gate(asked_by)) * contexts
    features = parts.features(top, contexts, embedded)
    if not need_weights:
        return DecoderOutput(features)
    scores = additive_scores(
        score.project_queries(asked_by), memory.prepared.projected, score.vector
    )
    block = AttentionBlock(look.kind, reading.shares[:, None, None], scores[:, None, None])
    return DecoderOutput(features, (block,))


def _ungated(look: DecoderAttention) -> tuple[DecoderAttention, nn.Linear | None]:
    """A look without its gate, and the gate, if there is one."""
    return (look.look, look.gate) if type(look) is GatedAttention else (look, None)


def _drops(dropout: nn.Dropout, like: Tensor, *shape: int) -> Tensor | None:
    """What multiplies as many numbers as dropout would see, or None where it does nothing."""
    if not dropout.training or dropout.p == 0 or 0 in shape:
        return None
    return dropout(like.new_ones(shape))
