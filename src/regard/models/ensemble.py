"""Several models that write one text together.

    p(y_t | y_1 .. y_{t-1}, x) = 1/N sum over the N members n of p_n(y_t | y_1 .. y_{t-1}, x)

The mean is that of the probabilities at every step (Sutskever et al. 2014, section 3.6, and most
toolkits), not of their logarithms: a word that one member thinks impossible stays possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import Any, cast

import torch
from torch import nn

from regard.models.contracts import AttentionBlock, Decoder, DecoderOutput, Memory, State
from regard.models.seq2seq import Seq2Seq
from regard.precise import precise_type
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class EnsembleState:
    """Where each member stands."""

    members: tuple[State, ...]

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> EnsembleState:
        return EnsembleState(tuple(each.select(hypotheses) for each in self.members))

    def keep(self, sentences: Int[Tensor, "kept"]) -> EnsembleState:
        return EnsembleState(tuple(each.keep(sentences) for each in self.members))


class EnsembleDecoder:
    """Decoders with one vocabulary, as one decoder.

    The memories are the members' own, one member's after the other's; features stand side by side.
    Attention is neither joined nor averaged: there are the blocks of the first member, then those
    of the second, and so on."""

    def __init__(
        self,
        members: Sequence[Decoder],
        feature_sizes: Sequence[int],
        num_memories: Sequence[int] | None = None,
    ) -> None:
        """`num_memories` is how many each member looks at, one where nothing is said. ValueError
        where these are not as many as members."""
        memories = [1] * len(members) if num_memories is None else list(num_memories)
        if not members or not len(members) == len(feature_sizes) == len(memories):
            raise ValueError(
                "expected at least one member, and as many feature sizes and numbers of memories, "
                f"but {len(members)}, {len(feature_sizes)} and {len(memories)} came"
            )
        self.members = tuple(members)
        self.feature_sizes = list(feature_sizes)
        self.num_memories = memories

    def __call__(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        return _side_by_side(
            [
                member(inputs, own, need_weights=need_weights)
                for member, own in self._with_memories(memories)
            ]
        )

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        """The logarithm of the mean probability, at least in float32."""
        parts = features.split(self.feature_sizes, dim=-1)
        dtype = precise_type(features.dtype)
        each = [
            torch.log_softmax(member.project(part), dim=-1, dtype=dtype)
            for member, part in zip(self.members, parts, strict=True)
        ]
        return reduce(torch.logaddexp, each) - math.log(len(each))

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
        return _side_by_side(outputs), EnsembleState(states)

    def _with_memories(
        self, memories: tuple[Memory, ...]
    ) -> Iterator[tuple[Decoder, tuple[Memory, ...]]]:
        if len(memories) != sum(self.num_memories):
            raise ValueError(
                f"expected {sum(self.num_memories)} memories for {len(self.members)} members, but "
                f"{len(memories)} came"
            )
        rest = iter(memories)
        for member, count in zip(self.members, self.num_memories, strict=True):
            yield member, tuple(islice(rest, count))


def _side_by_side(outputs: Sequence[DecoderOutput]) -> DecoderOutput:
    return DecoderOutput(
        torch.cat([each.features for each in outputs], dim=-1),
        tuple(block for each in outputs for block in each.attention),
    )


class Ensemble(nn.Module):
    """Models with one source and one target vocabulary, read and searched as one `Seq2Seq` is."""

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        decoders = [each.decoder for each in members]
        sizes = [each.projection.in_features for each in decoders]
        counts = [each.num_memories for each in decoders]
        self.decoder = EnsembleDecoder(decoders, sizes, counts)

    def read(
        self, source: Any, *, need_weights: bool = False
    ) -> tuple[tuple[Memory, ...], tuple[AttentionBlock, ...]]:
        """What each member's decoder may look at, and what its encoder looked at."""
        members = cast(Sequence[Seq2Seq], self.members)
        read = [each.read(source, need_weights=need_weights) for each in members]
        memories, attention = zip(*read, strict=True)
        return sum(memories, ()), sum(attention, ())

    def encode(self, source: Any) -> tuple[Memory, ...]:
        return self.read(source)[0]
