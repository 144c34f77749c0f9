"""Results of a search: hypotheses as token numbers, with their attention."""

from __future__ import annotations

from dataclasses import dataclass

from regard.names import AttentionKind
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class HypothesisAttention:
    """Attention of one kind in one hypothesis. The target axis counts its tokens. The source axis
    is as long as the padded source of the batch."""

    kind: AttentionKind
    weights: Float[Tensor, "layer head target source"]
    scores: Float[Tensor, "layer head target source"] | None = None


@dataclass(frozen=True)
class Hypothesis:
    """One decoded text.

    A `finished` hypothesis ends with the end token, which is one of its tokens; any other was cut
    off at its maximum length. Log probabilities are natural logarithms, one a token. `score` is the
    value that hypotheses are ranked by. `attention` is empty unless `need_weights` was set."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    score: float
    finished: bool
    attention: tuple[HypothesisAttention, ...] = ()


@dataclass(frozen=True)
class Lattice:
    """The beam of one sentence at every step: token of each hypothesis, index of its parent in the
    step before (0 in the first step), and sum of log probabilities.

    If a step has fewer hypotheses, the remaining places have token and parent -1 and score -inf. A
    hypothesis that ends with the end token has no continuation."""

    tokens: Int[Tensor, "step hypothesis"]
    parents: Int[Tensor, "step hypothesis"]
    scores: Float[Tensor, "step hypothesis"]
