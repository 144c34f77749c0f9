"""An encoder and a decoder as one module: what training calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from regard.data.batch import PairBatch
from regard.models.contracts import (
    AttentionBlock,
    Decoder,
    Encoder,
    Memory,
    Penalty,
    TrainedDecoder,
)
from regard.models.memory import BuildMemory
from regard.models.penalties import AttentionPenalty
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Seq2SeqOutput:
    """Features and targets of the real target positions alone, in reading order, and the layer
    that makes logits of features: a loss need never hold them all."""

    features: Float[Tensor, "word feature"]
    targets: Int[Tensor, "word"]
    projection: nn.Linear
    penalties: tuple[Penalty, ...] = ()

    @property
    def logits(self) -> Float[Tensor, "word vocabulary"]:
        """All of them, formed now."""
        return self.projection(self.features)


class Seq2Seq(nn.Module):
    """source -> encoder -> memories -> decoder -> features where there is a target."""

    def __init__(
        self,
        encoder: Encoder,
        decoder: TrainedDecoder,
        remember: BuildMemory,
        penalties: Sequence[AttentionPenalty] = (),
    ) -> None:
        """`penalties` are terms for how the decoder looked, while it learns."""
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.remember = remember
        self.penalties = cast(
            Sequence[AttentionPenalty], nn.ModuleList(cast(Sequence[nn.Module], penalties))
        )

    def read(
        self, source: Any, *, need_weights: bool = False
    ) -> tuple[tuple[Memory, ...], tuple[AttentionBlock, ...]]:
        """Read sources into what the decoder may look at, and what the encoder looked at."""
        encoded = self.encoder(source, need_weights=need_weights)
        return self.remember(encoded), encoded.attention

    def encode(self, source: Any) -> tuple[Memory, ...]:
        """What the decoder may look at alone."""
        return self.read(source)[0]

    def forward(
        self, batch: PairBatch, forced: Bool[Tensor, "batch target"] | None = None
    ) -> Seq2SeqOutput:
        """Read a batch. `forced` is True where the decoder's input is the true token and
        False where it is what the decoder itself would have written there; None is all true."""
        memories = self.encode(batch.source)
        inputs = batch.inputs
        if forced is not None:
            inputs = predicted_inputs(self.decoder, memories, inputs, forced)
        looks = self.training and len(self.penalties) > 0
        output = self.decoder(inputs, memories, need_weights=looks)
        projection = self.decoder.projection
        terms = [each(output, batch, projection) for each in self.penalties] if looks else []
        return Seq2SeqOutput(
            batch.real(output.features),
            batch.real(batch.outputs),
            projection,
            (*output.penalties, *terms),
        )


@torch.no_grad()
def predicted_inputs(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    inputs: Int[Tensor, "batch target"],
    forced: Bool[Tensor, "batch target"],
) -> Int[Tensor, "batch target"]:
    """Put the decoder's own predictions in the inputs wherever `forced` is False.

    Scheduled sampling (Bengio et al. 2015). The most probable token passes no gradient, so what is
    predicted can be written first, without gradients, and the whole sequence read afterwards: the
    same loss and gradients as feeding step by step. Sentences that are wholly forced are left out
    of the writing. The first input is always the true one."""
    rows = (~forced[:, 1:]).any(dim=1).nonzero()[:, 0]
    if rows.numel() == 0:
        return inputs
    state = decoder.start(memories).keep(rows)
    chosen, forced = inputs[rows], forced[rows]
    for position in range(inputs.size(1) - 1):
        output, state = decoder.step(chosen[:, position : position + 1], state)
        predicted = decoder.project(output.features)[:, 0].argmax(dim=-1)
        following = chosen[:, position + 1]
        chosen[:, position + 1] = torch.where(forced[:, position + 1], following, predicted)
    return inputs.index_copy(0, rows, chosen)
