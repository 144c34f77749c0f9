"""What may be written, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.models.contracts import Memory
from regard.shapes import Bool, Int, Tensor

ROUND = 8
"""Of this number or a multiple of it are the sentences that a search goes on with."""

PATIENCE = 8
"""Steps after which a GPU is asked how many sentences go on."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a text starts and ends. Lengths count every token written, the end too.

    `end` None: nothing ends a text but its maximum. No end is written before `minimum` other
    tokens, and `forbidden` ones (padding, the start) never are. A `maximum` is one for all or one
    a sentence."""

    start: int
    end: int | None
    maximum: int | Int[Tensor, "batch"]
    minimum: int = 0
    forbidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.minimum < 0:
            raise ValueError(f"minimum is {self.minimum}: expected 0 or more tokens")
        if (torch.as_tensor(self.maximum) < 1).any():
            raise ValueError(f"maximum is {self.maximum}: expected at least 1 token a sentence")


@dataclass(frozen=True)
class Rules:
    """The limits as a search over these sentences applies them."""

    limits: Limits
    maximum: Int[Tensor, "batch"]
    longest: int
    never: Int[Tensor, "_"]
    not_yet: Int[Tensor, "_"]

    @classmethod
    def of(cls, limits: Limits, memories: tuple[Memory, ...]) -> Rules:
        """For the sentences of these memories. ValueError where the limits are for another number
        of them."""
        keys = memories[0].keys
        maximum = torch.as_tensor(limits.maximum, device=keys.device)
        if maximum.dim() and maximum.size(0) != keys.size(0):
            raise ValueError(
                f"maximum has {maximum.size(0)} lengths for {keys.size(0)} sentences: "
                "give one a sentence, or one number for all"
            )
        maximum = maximum.expand(keys.size(0))
        early = () if limits.end is None else (limits.end,)
        return cls(
            limits,
            maximum,
            int(maximum.max()) if maximum.numel() else 0,
            torch.tensor(limits.forbidden, dtype=torch.long, device=keys.device),
            torch.tensor((*limits.forbidden, *early), dtype=torch.long, device=keys.device),
        )

    @property
    def end(self) -> int:
        """The end's number, or one that no token has."""
        return -1 if self.limits.end is None else self.limits.end

    def first(self) -> Int[Tensor, "batch 1"]:
        """What the decoder reads first."""
        return torch.full_like(self.maximum, self.limits.start, dtype=torch.long)[:, None]

    def closed(self, position: int) -> Int[Tensor, "_"]:
        """What may not be written at this position."""
        return self.not_yet if position < self.limits.minimum else self.never


def going_on(is_going: Bool[Tensor, "batch"], num_going: int) -> Int[Tensor, "kept"] | None:
    """The rows to go on with: those that do, and of the others so many that there are a multiple of
    eight, because oneDNN compiles its kernels anew for every number of rows. None: all of them."""
    kept = -(-num_going // ROUND) * ROUND if num_going > ROUND else num_going
    if kept >= is_going.size(0):
        return None
    return is_going.logical_not().sort(stable=True).indices[:kept]


def count_going(is_going: Bool[Tensor, "batch"], position: int) -> int | None:
    """How many sentences go on after this step; None where that is not asked now, because a GPU
    would have to be waited for."""
    if is_going.is_cpu or position % PATIENCE == PATIENCE - 1:
        return int(is_going.sum())
    return None
