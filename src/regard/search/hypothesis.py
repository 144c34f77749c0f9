"""What a search finds: texts as token numbers, with what they looked at."""

from __future__ import annotations

from dataclasses import dataclass

from regard.names import AttentionKind
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class HypothesisAttention:
    """Who looked at what in one hypothesis. The target axis counts its tokens; the source axis is
    as wide as the batch's padded source."""

    kind: AttentionKind
    weights: Float[Tensor, "layer head target source"]
    scores: Float[Tensor, "layer head target source"] | None = None


@dataclass(frozen=True)
class Hypothesis:
    """One text. Its tokens contain the end if it was written: then it is `finished`, otherwise
    its maximum cut it off. `score` is what it was ranked by; log probabilities are natural ones,
    one a token. `attention` is empty unless it was asked for."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    score: float
    finished: bool
    attention: tuple[HypothesisAttention, ...] = ()


@dataclass(frozen=True)
class Lattice:
    """The beam of one sentence, step by step: what each hypothesis wrote, which hypothesis of the
    step before it continues (0 in the first step), and its log probability so far.

    Where a step held fewer hypotheses the token and parent are -1 and the score is -inf. A
    hypothesis that wrote the end has no continuation."""

    tokens: Int[Tensor, "step hypothesis"]
    parents: Int[Tensor, "step hypothesis"]
    scores: Float[Tensor, "step hypothesis"]
