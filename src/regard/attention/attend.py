"""Attention: score, mask, normalise, mix.

`scores.py` has the score functions, `normalisers.py` the functions from scores to weights. Each
class computes its formula in operations of PyTorch.

Accelerated by `compiled/attention/attend.py`, equal in tests/compiled/test_accelerate.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from torch import nn

from regard.attention.checks import batch_of, check_inputs, check_num_keys
from regard.attention.hidden import mix, precise_scores
from regard.attention.masks import Causal, mask_tensor
from regard.attention.normalisers import Normaliser, Softmax
from regard.attention.scores import SCORES, PreparedKeys, Score
from regard.shapes import Bool, Float, Int, Tensor

Mask = Bool[Tensor, "*#batch #target #source"] | Causal
"""Mask that is True where a query may attend to a key, or CAUSAL."""


@dataclass(frozen=True)
class AttentionOutput:
    """Context of every query. Weights (before dropout) and scores (before the mask) are None unless
    `need_weights` was set. `state` is the state of attention with a history (`history.py`,
    `local.py`) after the step; other attention returns the state that it was called with."""

    context: Float[Tensor, "*batch target value"]
    weights: Float[Tensor, "*batch target source"] | None = None
    scores: Float[Tensor, "*batch target source"] | None = None
    state: Any = None
    drawn: Int[Tensor, "*batch target"] | None = None
    """Source positions drawn by hard attention; -1 for an expected context."""


@runtime_checkable
class AttentionFunction(Protocol):
    """Attention of any kind: global, local, hard, or with a history."""

    @property
    def is_stateful(self) -> bool:
        """Whether a step needs the state of the step before, so that steps must run in order."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""

    def start(self, mask: Bool[Tensor, "batch source"]) -> Any:
        """Return the state before the first step, with one hypothesis a sentence; None for
        attention without state."""

    def all_steps_state(self, queries: Float[Tensor, "batch target query"]) -> Any:
        """Return the state for one call that computes all target positions: the number of each
        position (local attention), or whether a source gets the expected context (hard attention).
        None for attention without state. ValueError for attention that needs one call a step."""

    def __call__(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: Any,
        values: Float[Tensor, "*#batch source value"],
        mask: Any = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The mask broadcasts to "*batch target source". `state` is that of the previous
        step, and the output has the new one; None for attention without state."""


def weighted_sum(
    weights: Float[Tensor, "*batch target source"],
    scores: Float[Tensor, "*batch target source"],
    values: Float[Tensor, "*#batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | None,
    dropout: nn.Dropout,
    *,
    need_weights: bool,
) -> AttentionOutput:
    """Return the sum of the values, multiplied by their weights after dropout. The output has
    weights and scores with `need_weights` only."""
    # Bahdanau et al. 2015, eq. 5 (from memory) if wiring is bahdanau: c_i = sum_j a_ij h_j
    # Luong et al. 2015, section 3.1 if wiring is luong: c_t = sum_s a_t(s) h_s
    # Xu et al. 2015, eq. 13 (from memory) if task is caption: z_t = sum_i a_ti a_i
    # Yang et al. 2016, eq. 7 if query is learned: s = sum_t a_t h_t
    # Vaswani et al. 2017, eq. 1 if kind is transformer: softmax(Q K^T / sqrt(d_k)) V
    context = mix(dropout(weights), values, mask)
    return AttentionOutput(context, weights, scores) if need_weights else AttentionOutput(context)


class Attention(nn.Module):
    """context_i = sum over j of weight_ij value_j, with weights_i = normalise(score(q_i, k_j)).

    The target axis counts queries: target positions in training, hypotheses in search."""

    def __init__(
        self, score: Score, normaliser: Normaliser | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.score = score
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.dropout = nn.Dropout(dropout)

    is_stateful = False

    def start(self, mask: Bool[Tensor, "batch source"]) -> None:
        """Return None: this attention has no state."""

    def all_steps_state(self, queries: Tensor) -> None:
        """Return None: this attention has no state."""

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""
        return self.score.prepare(keys)

    def forward(
        self,
        queries: Float[Tensor, "*#batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "*#batch source value"],
        mask: Mask | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The mask broadcasts to "*batch target source", or is CAUSAL. With `need_weights`
        the output has scores and weights, at least in float32.

        A position that no query may attend to has no influence: no context, weight or gradient
        depends on it, and its gradient is zero, also if it holds NaN or inf. If some queries may
        attend to a position, NaN or inf there may also reach the contexts of the others.

        ValueError or TypeError for shapes, types or devices that do not fit."""
        check_call(queries, prepared, values, mask)
        visible = mask_tensor(mask, queries)
        scores = _of_batch(attention_scores(self.score, queries, prepared, visible), values)
        weights = self.normaliser(scores, visible)
        output = weighted_sum(
            weights, scores, values, visible, self.dropout, need_weights=need_weights
        )
        return output if state is None else replace(output, state=state)


def check_call(queries: Tensor, prepared: Any, values: Tensor, mask: Mask | None) -> None:
    """Check one call of `Attention`. ValueError or TypeError for inputs that do not fit."""
    if isinstance(mask, Causal):
        check_inputs(queries, prepared, values, None)
        if queries.size(-2) not in (1, values.size(-2)):
            raise ValueError(
                f"mask: CAUSAL expected equal numbers of queries and keys, got {queries.size(-2)} "
                f"queries and {values.size(-2)} keys; use a tensor as the mask"
            )
    else:
        check_inputs(queries, prepared, values, mask)


def _of_batch(
    scores: Float[Tensor, "*#batch target source"], values: Float[Tensor, "*#batch source value"]
) -> Float[Tensor, "*batch target source"]:
    """Return scores expanded to the batch of the contexts. ValueError for another number of
    keys."""
    if scores.size(-1) != values.size(-2):
        check_num_keys(scores.mT, values)
    if scores.shape[:-2] == values.shape[:-2]:
        return scores
    batch = batch_of(scores=scores, values=values)
    return scores if scores.shape[:-2] == batch else scores.expand(*batch, *scores.shape[-2:])


def attention_scores(
    score: Score,
    queries: Float[Tensor, "*#batch target query"],
    prepared: PreparedKeys,
    mask: Bool[Tensor, "*#batch #target #source"] | None,
) -> Float[Tensor, "*batch target source"]:
    """Return scores at least in float32. With a mask, the package's scores read NaN and inf in keys
    that no query may attend to as zeros. Keys prepared by another score are not changed."""
    if not isinstance(score, SCORES):
        mask = None
    return precise_scores(partial(score, queries), prepared, mask)
