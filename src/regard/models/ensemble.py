"""Ensembles: several models that decode one text together.

    p(y_t | y_1 .. y_{t-1}, x) = 1/N sum over the N members n of p_n(y_t | y_1 .. y_{t-1}, x)

Probabilities are averaged at every step (Sutskever et al. 2014, section 3.6, and most toolkits),
not their logarithms, so a word that is impossible for one member remains possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import torch
from torch import nn

from regard.models.contracts import (
    AttentionBlock,
    CopyingDecoder,
    Decoder,
    DecoderOutput,
    Memory,
    State,
)
from regard.models.seq2seq import Seq2Seq
from regard.numerics.precision import log_of_mean
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class EnsembleState:
    """States of the members."""

    members: tuple[State, ...]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> EnsembleState:
        return EnsembleState(tuple(state.select(hypotheses) for state in self.members))

    def keep(self, sentences: Int[Tensor, "kept"]) -> EnsembleState:
        return EnsembleState(tuple(state.keep(sentences) for state in self.members))


class EnsembleDecoder:
    """Decoders with one vocabulary as one decoder.

    Memories, features and attention blocks are those of the first member, then those of the second,
    and so on. Features are concatenated. Attention is not averaged."""

    def __init__(
        self,
        members: Sequence[Decoder],
        feature_sizes: Sequence[int] | None,
        num_memories: Sequence[int] | None = None,
    ) -> None:
        """`feature_sizes` is None if all members copy: their features are log probabilities of one
        vocabulary, whose size depends on the batch. `num_memories` is the number of memories of
        each member, by default 1. ValueError if the numbers of members, feature sizes and numbers
        of memories differ."""
        memories = [1] * len(members) if num_memories is None else list(num_memories)
        sizes = [1] * len(members) if feature_sizes is None else list(feature_sizes)
        if not members or not len(members) == len(sizes) == len(memories):
            raise ValueError(
                "expected at least one member, with a feature size and a number of memories each, "
                f"got {len(members)} members, {len(sizes)} feature sizes and numbers of "
                f"memories for {len(memories)}"
            )
        self.members = tuple(members)
        self.feature_sizes = None if feature_sizes is None else sizes
        self.num_memories = memories

    def __call__(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        return _concatenated(
            [
                member(inputs, own, need_weights=need_weights)
                for member, own in self._with_memories(memories)
            ]
        )

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        """Return the logarithm of the mean probability, at least in float32."""
        sizes = self.feature_sizes or features.size(-1) // len(self.members)
        parts = features.split(sizes, dim=-1)
        return log_of_mean(
            [member.project(part) for member, part in zip(self.members, parts, strict=True)]
        )

    def start(self, memories: tuple[Memory, ...]) -> EnsembleState:
        return EnsembleState(
            tuple(member.start(own) for member, own in self._with_memories(memories))
        )

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: EnsembleState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, EnsembleState]:
        outputs, states = zip(
            *(
                member.step(tokens, own, need_weights=need_weights)
                for member, own in zip(self.members, state.members, strict=True)
            ),
            strict=True,
        )
        return _concatenated(outputs), EnsembleState(states)

    def _with_memories(
        self, memories: tuple[Memory, ...]
    ) -> Iterator[tuple[Decoder, tuple[Memory, ...]]]:
        if len(memories) != sum(self.num_memories):
            raise ValueError(
                f"memories: expected {sum(self.num_memories)} for {len(self.members)} members, got "
                f"{len(memories)}"
            )
        rest = iter(memories)
        for member, count in zip(self.members, self.num_memories, strict=True):
            yield member, tuple(islice(rest, count))


def _concatenated(outputs: Sequence[DecoderOutput]) -> DecoderOutput:
    copied = [output.copied for output in outputs if output.copied is not None]
    return DecoderOutput(
        torch.cat([output.features for output in outputs], dim=-1),
        tuple(block for output in outputs for block in output.attention),
        copied=torch.stack(copied).mean(dim=0) if copied else None,
    )


class Ensemble(nn.Module):
    """Models with one source and one target vocabulary, used like one `Seq2Seq`."""

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def decoder(self) -> EnsembleDecoder:
        """The present decoders of the members as one."""
        decoders = [member.decoder for member in cast(Sequence[Seq2Seq], self.members)]
        sizes: list[int] | None = [decoder.projection.in_features for decoder in decoders]
        if all(isinstance(decoder, CopyingDecoder) for decoder in decoders):
            sizes = None
        return EnsembleDecoder(decoders, sizes, [decoder.num_memories for decoder in decoders])

    def encode_with_attention(
        self, source: Any, *, need_weights: bool = False
    ) -> tuple[tuple[Memory, ...], tuple[AttentionBlock, ...]]:
        """Encode sources. Return the memories and the encoder attention of each member in order."""
        members = cast(Sequence[Seq2Seq], self.members)
        results = [
            member.encode_with_attention(source, need_weights=need_weights) for member in members
        ]
        memories, attention = zip(*results, strict=True)
        return sum(memories, ()), sum(attention, ())

    def encode(self, source: Any) -> tuple[Memory, ...]:
        return self.encode_with_attention(source)[0]
