"""Attention: the score of a query against a key, and how scores become weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, get_args

from regard.config.checks import (
    Dropout,
    Explanations,
    Positive,
    Share,
    Size,
    Weight,
    changed_fields,
    check_fields,
)
from regard.names import (
    NORMALISER_EXPLANATIONS,
    SCORE_EXPLANATIONS,
    AttentionScope,
    HistoryScoreName,
    NormaliserName,
    Sampling,
    ScoreName,
    SizedScoreName,
)

EXPLAINED = Explanations(SCORE_EXPLANATIONS)
EXPLAINED_NORMALISERS = Explanations(NORMALISER_EXPLANATIONS)


@dataclass(frozen=True)
class AttentionConfig:
    """Score and normaliser of an attention layer."""

    score: Annotated[ScoreName, EXPLAINED] = "additive"
    """Score function."""
    size: Size | None = None
    """Hidden units of the scores additive, concat and shared_additive. Default: model.size for a
    head, the size of one attention head for a Transformer."""
    normaliser: Annotated[NormaliserName, EXPLAINED_NORMALISERS] = "softmax"
    """Function that turns scores into weights."""
    temperature: Positive = 1.0
    """Divisor of the scores."""
    dropout: Dropout = 0.0
    """Dropout of the attention weights."""

    def __post_init__(self) -> None:
        check_fields("attention", self)

    def resolve(self, size: int) -> AttentionConfig:
        """Set the hidden units that are not set, if the score has any."""
        if self.size is None and self.score in get_args(SizedScoreName):
            return replace(self, size=size)
        return self

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.score not in get_args(SizedScoreName) and self.size is not None:
            yield "size", f"the score {self.score} has no hidden units"


@dataclass(frozen=True)
class DecoderAttentionConfig:
    """Attention of a recurrent decoder."""

    score: Annotated[ScoreName | HistoryScoreName, EXPLAINED] = "additive"
    """Score function."""
    size: Size | None = None
    """Hidden units of the scores additive, concat, shared_additive, coverage and location, and of
    the position network of the scope local_p. Default: model.decoder.size."""
    scope: AttentionScope = "global"
    """Source positions that a step attends to: all (global), a window that moves on with every
    step (local_m), a window whose centre is predicted (local_p; Luong et al. 2015)."""
    window: Size = 10
    """Positions on each side of the centre of a local scope."""
    normaliser: Annotated[NormaliserName, EXPLAINED_NORMALISERS] = "softmax"
    """Function that turns scores into weights."""
    temperature: Positive = 1.0
    """Divisor of the scores."""
    dropout: Dropout = 0.0
    """Dropout of the attention weights."""
    sampling: Sampling = "soft"
    """Context of a step: the weighted mean of the values (soft); the value at one position, sampled
    by the weights in training, which are learned from a reward (hard; Xu et al. 2015); or the value
    at the position of the highest weight, with the gradient of the weighted mean (straight_through;
    Bengio et al. 2013)."""
    expected: Share = 0.5
    """Share of the sources that get the weighted mean in the training of hard attention."""
    reward: Weight = 0.005
    """Weight of the reward that trains hard attention. A larger weight adds noise to the other
    gradients."""
    discount: Share | None = None
    """Reward of a sampled position: the log probabilities of its token and of all later tokens,
    each multiplied by this factor once more than the token before it. Default: one reward, the log
    probability of the whole target, for all positions."""
    entropy: Weight = 0.002
    """Weight of the entropy of the weights in hard attention. A larger weight delays weights that
    are concentrated on one position."""
    doubly_stochastic: Weight = 0.0
    """Weight of the penalty for positions whose weights do not sum to one over the target (Xu et
    al. 2015)."""

    def __post_init__(self) -> None:
        check_fields("attention", self)

    @property
    def has_size(self) -> bool:
        """Whether the size is read."""
        return self.score in get_args(SizedScoreName) or self.scope == "local_p"

    def resolve(self, size: int) -> DecoderAttentionConfig:
        """Set the hidden units that are not set, if there are any."""
        return replace(self, size=size) if self.size is None and self.has_size else self

    def plain(self) -> AttentionConfig:
        """Return the score and normaliser alone, for memories besides the source."""
        score: ScoreName = (
            "additive" if self.score == "coverage" or self.score == "location" else self.score
        )
        return AttentionConfig(score, self.size, self.normaliser, self.temperature, self.dropout)

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.size is not None and not self.has_size:
            yield "size", f"the score {self.score} has no hidden units"
        if self.scope == "global":
            yield from ((name, "the scope is global") for name in changed_fields(self, "window"))
        if self.sampling != "hard":
            names = changed_fields(self, "expected", "reward", "discount", "entropy")
            yield from ((name, f"sampling is {self.sampling}") for name in names)
        elif self.doubly_stochastic:
            yield "doubly_stochastic", "sampling is hard"
        if self.sampling == "straight_through" and self.dropout:
            yield "dropout", "sampling is straight_through, which uses one weight"
