"""Encoder and decoder as one module, for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn

from regard.attention.masks import none_if_full
from regard.data.batch import PairBatch, Tokens
from regard.data.special_tokens import END, PAD, UNKNOWN
from regard.models.contracts import (
    AttentionBlock,
    Copying,
    CopyingDecoder,
    Decoder,
    Encoded,
    Encoder,
    Measure,
    Memory,
    Penalty,
    TrainedDecoder,
)
from regard.models.memory import BuildMemory, repeat_memory
from regard.models.penalties import AttentionPenalty
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Seq2SeqOutput:
    """Features and targets of the real target positions, in reading order, and the layer from
    features to logits: a loss need never hold all logits."""

    features: Float[Tensor, "word feature"]
    targets: Int[Tensor, "word"]
    projection: nn.Linear
    penalties: tuple[Penalty, ...] = ()
    measures: tuple[Measure, ...] = ()
    copying: Copying | None = None
    """Copied part of the output of a decoder that copies. Features and logits are those of the
    generator, and targets may have numbers above its vocabulary."""

    @property
    def logits(self) -> Float[Tensor, "word vocabulary"]:
        """Logits of all positions, computed at each access."""
        return self.projection(self.features)


class Seq2Seq(nn.Module):
    """source -> encoder -> memories -> decoder -> features of the real target positions."""

    def __init__(
        self,
        encoder: Encoder,
        decoder: TrainedDecoder,
        build_memory: BuildMemory,
        penalties: Sequence[AttentionPenalty] = (),
    ) -> None:
        """`penalties` are terms on the attention of the decoder, added in training."""
        super().__init__()
        self._copies = isinstance(decoder, CopyingDecoder)
        self.encoder = encoder
        self.decoder = decoder
        self.build_memory = build_memory
        self.penalties = cast(
            Sequence[AttentionPenalty], nn.ModuleList(cast(Sequence[nn.Module], penalties))
        )

    def encode_with_attention(
        self, source: Any, *, need_weights: bool = False
    ) -> tuple[tuple[Memory, ...], tuple[AttentionBlock, ...]]:
        """Encode sources. Return the memories of the decoder and the attention of the encoder."""
        encoded = self.encoder(source, need_weights=need_weights)
        return self.memories(source, encoded), encoded.attention

    def encode(self, source: Any) -> tuple[Memory, ...]:
        """Encode sources. Return the memories of the decoder."""
        return self.encode_with_attention(source)[0]

    def memories(self, source: Any, encoded: Encoded) -> tuple[Memory, ...]:
        """Return the memories of the decoder for encoded sources."""
        memories = self.build_memory(encoded)
        if self._copies and isinstance(source, Tokens) and source.copies is not None:
            memories = (replace(memories[0], copies=source.copies), *memories[1:])
        return memories

    def forward(
        self, batch: PairBatch, forced: Bool[Tensor, "batch target"] | None = None
    ) -> Seq2SeqOutput:
        """Compute the features of a batch. `forced` is True where the decoder's input is the true
        token, and False where it is the decoder's own prediction. None: all inputs are true
        tokens."""
        encoded = self.encoder(batch.source)
        memories = self.memories(batch.source, encoded)
        if (rows := batch.rows) is not None:
            memories = tuple(repeat_memory(memory, rows) for memory in memories)
        inputs = batch.inputs
        if forced is not None:
            inputs = predicted_inputs(self.decoder, memories, inputs, forced)
        has_penalties = self.training and len(self.penalties) > 0
        copying = None
        if self._copies:
            output, parts = cast(CopyingDecoder, self.decoder).compute_parts(inputs, memories)
            copying = Copying(*map(batch.real, (parts.gate, parts.weights, parts.numbers)))
        else:
            output = self.decoder(inputs, memories, need_weights=has_penalties)
        projection = self.decoder.projection
        terms = []
        if has_penalties:
            generated = batch
            if copying is not None:  # a penalty reads the probabilities of the generator
                is_known = batch.outputs < projection.out_features
                generated = replace(batch, outputs=torch.where(is_known, batch.outputs, UNKNOWN))
            terms = [penalty(output, generated, projection) for penalty in self.penalties]
        return Seq2SeqOutput(
            batch.real(output.features),
            batch.real(batch.outputs),
            projection,
            (*encoded.penalties, *output.penalties, *terms),
            encoded.measures + output.measures,
            copying,
        )


@torch.no_grad()
def predicted_inputs(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    inputs: Int[Tensor, "batch target"],
    forced: Bool[Tensor, "batch target"],
) -> Int[Tensor, "batch target"]:
    """Return the inputs with the decoder's own predictions where `forced` is False.

    Scheduled sampling (Bengio et al. 2015). The most probable token has no gradient. Therefore the
    predictions are decoded first, without gradients, and all steps are computed afterwards, with
    the loss and gradients of step by step sampling. Sentences whose inputs are all true are not
    decoded. The first input is always the true one, and so are inputs without a target. END and
    PAD are not predicted, since no output continues after them."""
    if (has_target := inputs_with_target(inputs)) is not None:
        forced = forced | ~has_target
    rows = (~forced[:, 1:]).any(dim=1).nonzero()[:, 0]
    if rows.numel() == 0:
        return inputs
    state = decoder.start(memories).keep(rows)
    sampled, forced = inputs[rows], forced[rows]
    for position in range(inputs.size(1) - 1):
        output, state = decoder.step(sampled[:, position : position + 1], state)
        logits = decoder.project(output.features)[:, 0]
        logits[:, [PAD, END]] = -torch.inf
        predicted = logits.argmax(dim=-1)
        true = sampled[:, position + 1]
        # Bengio et al. 2015, section 2.4 if teacher_forcing: y_t with probability e_i, else max P
        sampled[:, position + 1] = torch.where(forced[:, position + 1], true, predicted)
    return inputs.index_copy(0, rows, sampled)


def inputs_with_target(
    inputs: Int[Tensor, "batch target"],
) -> Bool[Tensor, "batch target"] | None:
    """Return the mask of a decoder's inputs that have a target; None if all have one. Padding has
    none, nor has END, which is the last input of targets that are shorter than others."""
    return none_if_full((inputs != PAD) & (inputs != END))
