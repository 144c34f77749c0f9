"""Settings of the counting task. They import no torch, so that help and errors appear at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, get_args

from regard.errors import UserError
from regard.names import CountAnswer, NormaliserName

MAX_LETTERS = 26
LARGEST = 2**63 - 1
"""Largest integer that torch takes."""
BATCHES_AHEAD = 20
"""Training batches drawn at once."""


CHOICES = {"answer": get_args(CountAnswer), "normaliser": get_args(NormaliserName)}
"""Values of the settings that are names."""


def _setting(default: Any, about: str) -> Any:
    return field(default=default, metadata={"help": about})


@dataclass(frozen=True)
class CountingSettings:
    """Settings of a training, which a saved model contains. UserError for an invalid value."""

    steps: int = _setting(2000, "training steps")
    batchsize: int = _setting(100, "sequences per step")
    lr: float = _setting(
        1e-2,
        "learning rate of keys, values and queries; that of layer norm and output is ten times it "
        "for the answer class",
    )
    hidden: int = _setting(64, "size of queries, keys and values")
    max_len: int = _setting(10, "number of letters in a sequence")
    vocab_size: int = _setting(3, "number of different letters, from A on, without the blank")
    variable_length: bool = _setting(
        False, "train on all lengths from 1 to max_len, padded with visible blanks"
    )
    separate_values: bool = _setting(False, "compute keys and values by different linear layers")
    answer: CountAnswer = field(
        default="class", metadata={"help": "one class for every count, or a number of any size"}
    )
    normaliser: NormaliserName = field(
        default="softmax", metadata={"help": "function from scores to attention weights"}
    )

    def __post_init__(self) -> None:
        for name, minimum in (("steps", 1), ("batchsize", 1), ("hidden", 2), ("max_len", 1)):
            if getattr(self, name) < minimum:
                raise UserError(f"{name} is {getattr(self, name)}: expected {minimum} or more")
            if getattr(self, name) > LARGEST:
                raise UserError(f"{name} is {getattr(self, name)}: expected at most {LARGEST}")
        if not 1 <= self.vocab_size <= MAX_LETTERS:
            raise UserError(f"vocab_size is {self.vocab_size}: expected 1 to {MAX_LETTERS}")
        if not 0 < self.lr < math.inf:
            raise UserError(f"lr is {self.lr}: expected a number above 0")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"{name} is {getattr(self, name)!r}: expected {' or '.join(choices)}"
                )

    @property
    def counts_any_length(self) -> bool:
        """Whether a trained model counts sequences that are longer or shorter than in training."""
        return self.answer == "number" and self.normaliser == "sigmoid"

    @property
    def num_outputs(self) -> int:
        """Number of outputs for each letter: all possible counts, or one number."""
        return self.max_len + 1 if self.answer == "class" else 1

    @property
    def training_bytes(self) -> int:
        """Lower bound of the memory for training, in bytes: batches, activations and weights."""
        weights = self.hidden * self.num_outputs
        logits = self.batchsize * self.vocab_size * self.num_outputs
        batches = BATCHES_AHEAD * self.batchsize
        return 4 * (4 * weights + logits) + batches * self.sequence_bytes(self.max_len)

    def sequence_bytes(self, length: int) -> int:
        """Return a lower bound of the memory for a sequence, in bytes: as numbers and one-hot."""
        return length * (8 + 4 * (self.vocab_size + 1))
