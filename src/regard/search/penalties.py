"""Length and coverage penalties: sums of log probabilities favour short texts and omitted words.

    score(Y | X) = log P(Y | X) / length(Y) + coverage(X, Y)

Wu et al. 2016, "Google's Neural Machine Translation System", section 7 (equation 14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch

from regard.models.contracts import AT_SOURCE, AttentionBlock, Memory
from regard.shapes import Bool, Float, Int, Tensor

MIN_ATTENTION = 1e-6
"""Minimum attention that a source position counts, so that its logarithm is finite."""


@runtime_checkable
class LengthPenalty(Protocol):
    """Function from the lengths of hypotheses to the divisors of their log probabilities.

    Divisors are positive and never smaller for a longer hypothesis. The stopping rule of the
    search relies on this."""

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]: ...


@dataclass(frozen=True)
class NoPenalty:
    """Divisor 1: the score is the log probability."""

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        return torch.ones_like(lengths, dtype=torch.float)


@dataclass(frozen=True)
class Average:
    """The length as divisor: the score is the mean log probability of a token."""

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        return lengths.float()


@dataclass(frozen=True)
class GoogleLength:
    """Divisor ((5 + length) / 6) ** alpha (Wu et al. 2016, eq. 14, who set alpha to 0.2 with a
    coverage penalty). ValueError for a negative alpha."""

    alpha: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is {self.alpha}: expected 0 (no penalty) or more")

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        # Wu et al. 2016, eq. 14 if length_penalty: lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha
        return ((5 + lengths.float()) / 6) ** self.alpha


@dataclass(frozen=True)
class SourceCoverage:
    """Attention that each source position received from each hypothesis, summed over its steps."""

    attended: Float[Tensor, "batch hypothesis source"]
    mask: Bool[Tensor, "batch source"]

    @classmethod
    def none(cls, memory: Memory) -> SourceCoverage:
        return cls(torch.zeros_like(memory.mask, dtype=torch.float)[:, None], memory.mask)

    def extend(
        self, blocks: tuple[AttentionBlock, ...], parents: Int[Tensor, "batch hypothesis"]
    ) -> SourceCoverage:
        """Add the attention of one step, then select the parent of each new hypothesis.

        The attention is the mean over layers, heads and the decoders of an ensemble. ValueError if
        the decoder has no attention to the source."""
        cross = [block.weights for block in blocks if block.kind in AT_SOURCE]
        if not cross:
            raise ValueError(
                "coverage_penalty: expected a decoder with attention to the source, but this one "
                "has none; set the penalty to 0"
            )
        mean = torch.stack([weights.mean(dim=(1, 2)) for weights in cross]).mean(dim=0)
        attended = self.attended + mean
        index = parents[:, :, None].expand(-1, -1, attended.size(2))
        return replace(self, attended=attended.gather(1, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> SourceCoverage:
        return SourceCoverage(self.attended[sentences], self.mask[sentences])

    def first(self, count: int) -> SourceCoverage:
        """Return the coverage of the first `count` hypotheses of each sentence."""
        return replace(self, attended=self.attended[:, :count])

    def score(self) -> Float[Tensor, "batch hypothesis"]:
        """Return the sum over source positions of log(min(attention, 1)): 0 for full coverage,
        negative otherwise."""
        # Wu et al. 2016, eq. 14 if coverage_penalty: cp(X; Y) = beta sum_i log(min(sum_j p_ij, 1))
        logarithms = self.attended.clamp(MIN_ATTENTION, 1).log()
        return logarithms.masked_fill(~self.mask[:, None], 0).sum(dim=2)
