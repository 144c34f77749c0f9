"""Candidates: the most probable continuations of all hypotheses of a sentence.

    log p_v = x_v - log sum_w e^{x_w}        -inf for forbidden tokens
    sum     = total + log p_v                for each hypothesis and token

Accelerated by `compiled/candidates.py`, equal in tests/compiled/test_candidates.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from regard.numerics.precision import precise_type
from regard.search.restrictions import TokenHistory
from regard.search.topk import stable_topk_of_sums
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Candidates:
    """Best candidates of each sentence, best first: log probability of the whole text (`totals`)
    and of the token (-inf if the total is), token, and index of the parent hypothesis."""

    totals: Float[Tensor, "batch candidate"]
    log_probabilities: Float[Tensor, "batch candidate"]
    tokens: Int[Tensor, "batch candidate"]
    parents: Int[Tensor, "batch candidate"]

    def __getitem__(self, index: Any) -> Candidates:
        return self._map(lambda column: column[index])

    def at(self, indices: Int[Tensor, "batch selected"]) -> Candidates:
        """Return the candidates at these indices of each sentence."""
        return self._map(lambda column: column.gather(1, indices))

    def only(self, live: Bool[Tensor, "batch candidate"]) -> Candidates:
        """Return all candidates, with log probabilities of -inf for those that are not live."""
        columns = self.totals, self.log_probabilities
        totals, logs = (column.masked_fill(~live, -torch.inf) for column in columns)
        return Candidates(totals, logs, self.tokens, self.parents)

    def beside(self, others: Candidates) -> Candidates:
        """Return these candidates followed by the others, for each sentence."""
        pairs = zip(self._columns(), others._columns(), strict=True)
        return Candidates(*(torch.cat(pair, dim=1) for pair in pairs))

    def filled_up(self, count: int) -> Candidates:
        """Return at least this number of candidates: these, followed by impossible ones."""
        missing = count - self.totals.size(1)
        if missing <= 0:
            return self
        return Candidates(
            F.pad(self.totals, (0, missing), value=-torch.inf),
            F.pad(self.log_probabilities, (0, missing), value=-torch.inf),
            F.pad(self.tokens, (0, missing)),
            F.pad(self.parents, (0, missing)),
        )

    def _map(self, function: Callable[[Tensor], Tensor]) -> Candidates:
        return Candidates(*map(function, self._columns()))

    def _columns(self) -> tuple[Tensor, ...]:
        return self.totals, self.log_probabilities, self.tokens, self.parents


def top_candidates(
    logits: Float[Tensor, "batch hypothesis vocabulary"],
    totals: Float[Tensor, "batch hypothesis"],
    forbidden: Int[Tensor, "_"],
    count: int,
    history: TokenHistory | None = None,
) -> Candidates:
    """Return the `count` candidates with the highest totals, or all if there are fewer. The
    restrictions of the history change log probabilities.

    Among equal totals the lower hypothesis comes first, then the lower token. NaN comes before all
    numbers. Impossible candidates (-inf) come last and may be repeated. ValueError for shapes,
    types or devices that do not fit, and on a CPU for forbidden tokens outside the vocabulary."""
    check_candidates(logits, totals, forbidden, count)
    count = min(count, logits.size(1) * logits.size(2))
    if forbidden.is_cpu and ((forbidden < 0) | (forbidden >= logits.size(2))).any():
        raise ValueError(f"forbidden: a token of {forbidden.tolist()} is out of range")
    values = log_probabilities(logits, forbidden, history)
    sums, indices = stable_topk_of_sums(totals, values, count)
    logs = values.flatten(1).gather(1, indices).masked_fill(sums == -torch.inf, -torch.inf)
    num_tokens = logits.size(2)
    return Candidates(sums, logs, indices % num_tokens, indices // num_tokens)


TopCandidates = Callable[
    [
        Float[Tensor, "batch hypothesis vocabulary"],
        Float[Tensor, "batch hypothesis"],
        Int[Tensor, "_"],
        int,
        TokenHistory | None,
    ],
    Candidates,
]
"""Function that computes `top_candidates`."""


def check_candidates(logits: Tensor, totals: Tensor, forbidden: Tensor, count: int) -> None:
    """Check the arguments of `top_candidates`."""
    if logits.dim() != 3 or 0 in logits.shape[1:] or totals.shape != logits.shape[:2]:
        raise ValueError(
            "logits and totals: expected (batch, hypothesis, vocabulary), at least one of the last "
            f"two, and (batch, hypothesis), got {tuple(logits.shape)} and {tuple(totals.shape)}"
        )
    if forbidden.dim() != 1 or forbidden.dtype != torch.long:
        raise ValueError(
            f"forbidden: expected a vector of torch.int64, got {forbidden.dtype} of shape "
            f"{tuple(forbidden.shape)}"
        )
    if count < 1:
        raise ValueError(f"count: expected 1 or more, got {count}")
    if not logits.device == totals.device == forbidden.device:
        raise ValueError(
            f"logits, totals and forbidden: expected one device, got {logits.device}, "
            f"{totals.device} and {forbidden.device}"
        )


def log_probabilities(
    logits: Float[Tensor, "*batch vocabulary"],
    forbidden: Int[Tensor, "_"],
    history: TokenHistory | None = None,
) -> Float[Tensor, "*batch vocabulary"]:
    """Return natural logarithms of the model's probabilities, at least in float32, and -inf for
    forbidden tokens, changed by the restrictions of the history. Allowed tokens are not normalised
    again."""
    dtype = precise_type(logits.dtype)
    values = torch.log_softmax(logits, dim=-1, dtype=dtype)
    if history is not None:
        return history.restrict_(values, forbidden)
    return values.index_fill_(-1, forbidden, -torch.inf) if forbidden.numel() else values
