"""Teacher forcing, step by step, for decoders whose context enters the next state."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from regard.models.contracts import AttentionBlock, Decoder, DecoderOutput
from regard.models.recurrent.parts import RecurrentState
from regard.numerics.joined_gradients import joined_gradients
from regard.shapes import Float, Int, Tensor


def unroll(
    decoder: Decoder,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
    *,
    need_weights: bool,
) -> DecoderOutput:
    """Run all steps in order, for decoders whose context enters the next state."""
    outputs = []
    with joined_gradients():
        for tokens in inputs.split(1, dim=1):
            output, state = decoder.step(tokens, state, need_weights=need_weights)
            outputs.append(output)
    features = torch.cat([output.features for output in outputs], dim=1)
    return DecoderOutput(features, _joined_attention(outputs))


def _joined_attention(steps: list[DecoderOutput]) -> tuple[AttentionBlock, ...]:
    """Return the attention of all steps as blocks along the target axis. Attention to the decoder's
    own states grows wider at each step: positions that did not exist yet get weight 0."""
    joined = []
    for blocks in zip(*(step.attention for step in steps), strict=True):
        weights = _concatenated([block.weights for block in blocks], 0.0)
        step_scores = [block.scores for block in blocks if block.scores is not None]
        scores = _concatenated(step_scores, -torch.inf) if step_scores else None
        step_drawn = [block.drawn for block in blocks if block.drawn is not None]
        drawn = torch.cat(step_drawn, dim=3) if step_drawn else None
        joined.append(AttentionBlock(blocks[0].kind, weights, scores, drawn))
    return tuple(joined)


def _concatenated(
    steps: list[Tensor], absent: float
) -> Float[Tensor, "batch layer head target source"]:
    width = max(step.size(-1) for step in steps)
    padded = [F.pad(step, (0, width - step.size(-1)), value=absent) for step in steps]
    return torch.cat(padded, dim=3)
