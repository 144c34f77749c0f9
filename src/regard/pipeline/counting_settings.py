"""What the counting task is trained with. Apart from the rest, so that help and mistakes can be
told without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import UserError

MOST_LETTERS = 26


@dataclass(frozen=True)
class CountingSettings:
    """A saved model carries these with it. UserError where one has no meaning."""

    steps: int = 2000
    """training steps"""
    batchsize: int = 100
    """sequences a step"""
    lr: float = 1e-2
    """learning rate of queries, keys and values; layer norm and output take ten times as much"""
    hidden: int = 64
    """numbers in one query, key or value"""
    max_len: int = 10
    """letters in a sequence"""
    vocab_size: int = 3
    """letters there are, from A on, besides the blank (at most 26)"""
    variable_length: bool = False
    """train and test on every length from 1 to max_len, filled up with blanks"""
    separate_values: bool = False
    """give keys and values a linear layer each"""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batchsize", 1), ("hidden", 2), ("max_len", 1)):
            if getattr(self, name) < least:
                raise UserError(f"--{name} is {getattr(self, name)}: expected {least} or more")
        if not 1 <= self.vocab_size <= MOST_LETTERS:
            raise UserError(f"--vocab_size is {self.vocab_size}: expected 1 to {MOST_LETTERS}")
        if not 0 < self.lr < math.inf:
            raise UserError(f"--lr is {self.lr}: expected a number above 0")
