"""Limits of a search: allowed tokens, minimum and maximum lengths, and restrictions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.models.contracts import Memory
from regard.numerics.linear import round_rows_up
from regard.search.restrictions import Restrictions, TokenHistory
from regard.shapes import Bool, Int, Tensor

ROUND = 8
"""Multiple to which the number of sentences in a batch is rounded up when others are removed."""

PATIENCE = 8
"""Number of steps between two counts of the active sentences on a GPU."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Start token, end token, lengths, forbidden tokens and restrictions of a search.

    Lengths are in tokens, the end token included. With `end` None a text ends at its maximum only.
    The end token is forbidden before `minimum` other tokens; `forbidden` tokens (padding, the
    start) are excluded from decoding everywhere. `maximum` is one number, or one a sentence.
    ValueError for a negative minimum or token, or a maximum below 1."""

    start: int
    end: int | None
    maximum: int | Int[Tensor, "batch"]
    minimum: int = 0
    forbidden: tuple[int, ...] = ()
    restrictions: Restrictions | None = None

    def __post_init__(self) -> None:
        if self.minimum < 0:
            raise ValueError(f"minimum is {self.minimum}: expected 0 or more tokens")
        if min(self.forbidden, default=0) < 0:
            raise ValueError(f"forbidden is {self.forbidden}: expected tokens from 0 on")
        if (torch.as_tensor(self.maximum) < 1).any():
            raise ValueError(f"maximum is {self.maximum}: expected at least 1 token a sentence")


@dataclass(frozen=True)
class Rules:
    """Limits as tensors for the sentences of one batch."""

    limits: Limits
    maximum: Int[Tensor, "batch"]
    shortest: int
    """Smallest maximum of all sentences."""
    longest: int
    """Largest maximum of all sentences."""
    always_forbidden: Int[Tensor, "_"]
    forbidden_early: Int[Tensor, "_"]
    """Forbidden tokens before the minimum: `always_forbidden` and the end token."""
    history: TokenHistory | None
    """History before the first token; None without restrictions."""

    @classmethod
    def of(cls, limits: Limits, memories: tuple[Memory, ...]) -> Rules:
        """Return the rules for the sentences of these memories. ValueError if the limits have
        maxima or prefixes for another number of sentences."""
        keys = memories[0].keys
        maximum = torch.as_tensor(limits.maximum, device=keys.device)
        if maximum.dim() and maximum.size(0) != keys.size(0):
            raise ValueError(
                f"maximum has {maximum.size(0)} lengths for {keys.size(0)} sentences: "
                "give one a sentence, or one number for all"
            )
        maximum = maximum.expand(keys.size(0))
        shortest, longest = map(int, maximum.aminmax()) if maximum.numel() else (0, 0)
        early = () if limits.end is None else (limits.end,)
        return cls(
            limits,
            maximum,
            shortest,
            longest,
            torch.tensor(limits.forbidden, dtype=torch.long, device=keys.device),
            torch.tensor((*limits.forbidden, *early), dtype=torch.long, device=keys.device),
            TokenHistory.start(limits.restrictions, maximum).active,
        )

    @property
    def end(self) -> int:
        """Number of the end token; without an end token -1, which no token has."""
        return -1 if self.limits.end is None else self.limits.end

    def first(self) -> Int[Tensor, "batch 1"]:
        """Return the first input of the decoder: the start token of each sentence."""
        return torch.full_like(self.maximum, self.limits.start, dtype=torch.long)[:, None]

    def forbidden(self, position: int) -> Int[Tensor, "_"]:
        """Return the tokens to exclude from decoding at this position."""
        return self.forbidden_early if position < self.limits.minimum else self.always_forbidden


def rows_to_keep(is_active: Bool[Tensor, "batch"], num_active: int) -> Int[Tensor, "kept"] | None:
    """Return the rows of the active sentences, filled up with rows of sentences that are done: more
    than ROUND rows are a multiple of it (`linear.round_rows_up`). None: keep all rows."""
    count = round_rows_up(num_active, ROUND) if num_active > ROUND else num_active
    if count >= is_active.size(0):
        return None
    return is_active.logical_not().sort(stable=True).indices[:count]


def count_active(is_active: Bool[Tensor, "batch"], position: int) -> int | None:
    """Return the number of sentences that are active after this step. None if it is not counted at
    this step, because the CPU would wait for the GPU."""
    if is_active.is_cpu or position % PATIENCE == PATIENCE - 1:
        return int(is_active.sum())
    return None
