"""What the counting task is trained with. Apart from the rest, so that help can be given and
mistakes told without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from regard.errors import UserError

MOST_LETTERS = 26
LARGEST = 2**63 - 1
"""Largest integer that torch takes."""
BATCHES_AHEAD = 20
"""Training batches drawn at once."""


def _setting(default: Any, about: str) -> Any:
    return field(default=default, metadata={"help": about})


@dataclass(frozen=True)
class CountingSettings:
    """A saved model carries these with it. UserError where one has no meaning."""

    steps: int = _setting(2000, "training steps")
    batchsize: int = _setting(100, "sequences in a step")
    lr: float = _setting(
        1e-2, "learning rate of keys, values and queries; layer norm and output learn at ten times"
    )
    hidden: int = _setting(64, "numbers in a query, a key and a value")
    max_len: int = _setting(10, "letters in a sequence")
    vocab_size: int = _setting(3, "how many letters, from A on, there are beside the blank")
    variable_length: bool = _setting(
        False, "every length from 1 to max_len, filled up with visible blanks"
    )
    separate_values: bool = _setting(False, "a linear layer for the keys and one for the values")

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batchsize", 1), ("hidden", 2), ("max_len", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}: expected {least} or more")
            if getattr(self, name) > LARGEST:
                raise UserError(f"{name} is {getattr(self, name)}: expected at most {LARGEST}")
        if not 1 <= self.vocab_size <= MOST_LETTERS:
            raise UserError(f"vocab_size is {self.vocab_size}: expected 1 to {MOST_LETTERS}")
        if not 0 < self.lr < math.inf:
            raise UserError(f"lr is {self.lr}: expected a number above 0")

    @property
    def training_bytes(self) -> int:
        """Bytes of memory that training takes at least: batches, activations and weights."""
        weights = self.hidden * (self.max_len + 1)
        logits = self.batchsize * self.vocab_size * (self.max_len + 1)
        batches = BATCHES_AHEAD * self.batchsize
        return 4 * (4 * weights + logits) + batches * self.sequence_bytes(self.max_len)

    def sequence_bytes(self, length: int) -> int:
        """Bytes of memory that a sequence takes at least: letters as numbers and one-hot."""
        return length * (8 + 4 * (self.vocab_size + 1))
