"""Encoders and decoders with mixtures of experts (Shazeer et al. 2017).

The wrapped module calls its experts like feed-forward networks. The wrapper tells them which
positions are real, and adds to the output what they did: gate values as attention to experts, terms
of the loss and numbers of the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.attention.masks import none_if_full
from regard.layers.routing import Routings, routings
from regard.models.contracts import (
    AttentionBlock,
    DecoderOutput,
    Encoded,
    Encoder,
    Measure,
    Memory,
    Penalty,
    TrainedDecoder,
)
from regard.models.seq2seq import inputs_with_target
from regard.names import AttentionKind
from regard.shapes import Float, Int, Tensor


class EncoderWithExperts(nn.Module):
    """Encoder whose output has the gate values, losses and loads of its experts."""

    def __init__(self, inner: Encoder) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, source: Any, *, need_weights: bool = False) -> Encoded:
        with routings(none_if_full(source.mask)) as opened:
            encoded = self.inner(source, need_weights=need_weights)
        blocks = _blocks("encoder_experts", opened, source.mask) if need_weights else ()
        return replace(
            encoded,
            attention=encoded.attention + blocks,
            penalties=encoded.penalties + _penalties(opened),
            measures=encoded.measures + _measures("encoder_load", opened),
        )


class DecoderWithExperts(nn.Module):
    """Decoder whose output has the gate values of its experts and, for all positions of a target,
    their losses and loads. A step has none of these, as they need the work at all positions."""

    def __init__(self, inner: TrainedDecoder) -> None:
        super().__init__()
        self.inner = inner

    @property
    def projection(self) -> nn.Linear:
        return self.inner.projection

    @property
    def num_memories(self) -> int:
        return self.inner.num_memories

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        with routings(inputs_with_target(inputs)) as opened:
            output = self.inner(inputs, memories, need_weights=need_weights)
        blocks = _blocks("decoder_experts", opened, inputs) if need_weights else ()
        return replace(
            output,
            attention=output.attention + blocks,
            penalties=output.penalties + _penalties(opened),
            measures=output.measures + _measures("decoder_load", opened),
        )

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.inner.project(features)

    def start(self, memories: tuple[Memory, ...]) -> Any:
        return self.inner.start(memories)

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: Any, *, need_weights: bool = False
    ) -> tuple[DecoderOutput, Any]:
        with routings(inputs_with_target(tokens)) as opened:
            output, state = self.inner.step(tokens, state, need_weights=need_weights)
        blocks = _blocks("decoder_experts", opened, tokens) if need_weights else ()
        return replace(output, attention=output.attention + blocks), state


def _blocks(kind: AttentionKind, opened: Routings, positions: Tensor) -> tuple[AttentionBlock, ...]:
    """Return the gate values as one block, whose source axis counts the experts."""
    weights, scores = opened.gates(*positions.shape)
    return (AttentionBlock(kind, weights[:, :, None], scores[:, :, None]),)


def _penalties(opened: Routings) -> tuple[Penalty, ...]:
    """Return the importance loss and the load loss of every layer with experts, in training."""
    return tuple(
        Penalty(name, value, is_mean=True)
        for balance in opened.balances
        for name, value in (
            ("importance", balance.importance_loss),
            ("load", balance.load_loss),
        )
    )


def _measures(name: str, opened: Routings) -> tuple[Measure, ...]:
    """Return the load of the busiest expert over the mean load, as the mean over layers, in
    training."""
    loads = [balance.largest_load for balance in opened.balances]
    return (Measure(name, torch.stack(loads).mean()),) if loads else ()
