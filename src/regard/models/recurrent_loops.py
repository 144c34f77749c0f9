"""A whole target for a decoder whose context enters its next state: step by step, or, where its
attention is additive, by one operator that does the same.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.attention import AdditiveKeys, Attention
from regard.layers.recurrent import step_weights
from regard.models.attending_loop import Loop, run
from regard.models.contracts import AttentionBlock, Decoder, DecoderOutput
from regard.models.recurrent_parts import DecoderParts, RecurrentState
from regard.products import affine
from regard.shapes import Int, Tensor


def read_stepwise(
    decoder: Decoder, inputs: Int[Tensor, "batch target"], state: RecurrentState, need_weights: bool
) -> DecoderOutput:
    """All steps one after the other, for wirings in which a context enters the next state."""
    steps = []
    for tokens in inputs.split(1, dim=1):
        output, state = decoder.step(tokens, state, need_weights=need_weights)
        steps.append(output)
    return DecoderOutput(torch.cat([step.features for step in steps], dim=1), _join(steps))


def _join(steps: list[DecoderOutput]) -> tuple[AttentionBlock, ...]:
    """The attention of single steps as one block along the target axis."""
    if not steps[0].attention:
        return ()
    blocks = [step.attention[0] for step in steps]
    weights = torch.cat([block.weights for block in blocks], dim=3)
    scores = [block.scores for block in blocks if block.scores is not None]
    return (AttentionBlock("cross", weights, torch.cat(scores, dim=3) if scores else None),)


def can_read_at_once(parts: DecoderParts, attention: Attention) -> bool:
    """Whether the loop over all steps can be one operator, where nothing but the context and the
    state enters the next step: attention is additive, and no weights are packed."""
    packed = any(weight.is_mkldnn for weight in parts.stack.parameters())
    return attention.additive is not None and not packed  # what is packed cannot be taken apart


def read_at_once(
    parts: DecoderParts,
    attention: Attention,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
    *,
    asks_first: bool,
) -> DecoderOutput:
    """What `read_stepwise` computes, by one operator, for a decoder that asks before its new state
    (Bahdanau) or after it (Luong). At least in float32."""
    memory, additive = state.memory, attention.additive
    if memory is None or additive is None or not isinstance(memory.prepared, AdditiveKeys):
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
        weights=weights[2:],
        mask=memory.mask,
        drop=_drops(attention.dropout, numbers, batch, target, num_keys),
        between=_drops(stack.dropout, numbers, target, stack.num_layers - 1, batch, size),
        scale=scale,
        kind=stack.kind,
        asks_first=asks_first,
    )
    found = run(loop.to(torch.promote_types(memory.values.dtype, torch.float32)))
    return DecoderOutput(parts.features(found.top, found.contexts, embedded))


def _drops(dropout: nn.Dropout, like: Tensor, *shape: int) -> Tensor | None:
    """What multiplies as many numbers as dropout would see, or None where it does nothing."""
    if not dropout.training or dropout.p == 0 or 0 in shape:
        return None
    return dropout(like.new_ones(shape))
