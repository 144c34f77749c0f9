"""What corrects a sum of log probabilities, which favours short texts and lost words.

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

LEAST_ATTENTION = 1e-6
"""What a word that was never looked at counts as, so that its logarithm stays finite."""


@runtime_checkable
class LengthPenalty(Protocol):
    """What a hypothesis's log probability is divided by.

    Positive, and never less for a longer hypothesis: the search relies on it to know what an
    unfinished one can still reach."""

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]: ...


@dataclass(frozen=True)
class NoPenalty:
    """The log probability itself."""

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        return torch.ones_like(lengths, dtype=torch.float)


@dataclass(frozen=True)
class Average:
    """The length: the score is the mean log probability of a token."""

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        return lengths.float()


@dataclass(frozen=True)
class GoogleLength:
    """((5 + length) / 6) ** alpha, Wu et al. 2016. They took alpha 0.2 with coverage."""

    alpha: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is {self.alpha}: expected 0 (no penalty) or more")

    def __call__(self, lengths: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        return ((5 + lengths.float()) / 6) ** self.alpha


@dataclass(frozen=True)
class Coverage:
    """How much each hypothesis has looked at each source position, over all its steps."""

    attended: Float[Tensor, "batch hypothesis source"]
    mask: Bool[Tensor, "batch source"]

    @classmethod
    def none(cls, memory: Memory) -> Coverage:
        return cls(torch.zeros_like(memory.mask, dtype=torch.float)[:, None], memory.mask)

    def extend(
        self, blocks: tuple[AttentionBlock, ...], parents: Int[Tensor, "batch hypothesis"]
    ) -> Coverage:
        """Add a step's attention to the source, the mean of its layers and heads (and of several
        decoders), and go on from these hypotheses. ValueError where there is none."""
        cross = [block.weights for block in blocks if block.kind in AT_SOURCE]
        if not cross:
            raise ValueError(
                "a coverage penalty needs attention to the source, and this decoder gave none: set "
                "it to 0"
            )
        mean = torch.stack([weights.mean(dim=(1, 2)) for weights in cross]).mean(dim=0)
        attended = self.attended + mean
        index = parents[:, :, None].expand(-1, -1, attended.size(2))
        return replace(self, attended=attended.gather(1, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> Coverage:
        return Coverage(self.attended[sentences], self.mask[sentences])

    def first(self, count: int) -> Coverage:
        """Of the first so many hypotheses of each sentence."""
        return replace(self, attended=self.attended[:, :count])

    def score(self) -> Float[Tensor, "batch hypothesis"]:
        """The sum over the source of log(min(attention, 1)): 0 where all was read, else less."""
        logarithms = self.attended.clamp(LEAST_ATTENTION, 1).log()
        return logarithms.masked_fill(~self.mask[:, None], 0).sum(dim=2)
