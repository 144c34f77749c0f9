"""Random sequences of letters, and the number of each letter in them.

    'A' 'B' ' ' 'A'  ->  numbers 1 2 0 1  ->  counts A 2, B 1

The blank is number 0: a symbol like the letters, but not counted.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch.nn import functional as F

from regard.shapes import Float, Int, Tensor

BLANK = 0
MAX_VOCAB_SIZE = len(string.ascii_uppercase)


@runtime_checkable
class LetterSampler(Protocol):
    """Sampler of sequences of letter numbers."""

    def __call__(self, count: int, generator: torch.Generator) -> Int[Tensor, "{count} source"]: ...


class EvenLetters:
    """Sampler of sequences in which the blank and all letters have equal probability."""

    def __init__(self, vocab_size: int, length: int) -> None:
        _check(vocab_size, length)
        self.vocab_size = vocab_size
        self.length = length

    def __call__(self, count: int, generator: torch.Generator) -> Int[Tensor, "{count} source"]:
        return torch.randint(self.vocab_size + 1, (count, self.length), generator=generator)


class UnevenLetters:
    """Sampler of sequences with their own probabilities of the blank and the letters, from a
    Dirichlet(1/2).

    With equal probabilities, counts near the length are too rare to learn; here every count is
    common. Squares of normal numbers divided by their sum have a Dirichlet(1/2) distribution;
    `multinomial` normalises its weights."""

    def __init__(self, vocab_size: int, length: int) -> None:
        _check(vocab_size, length)
        self.vocab_size = vocab_size
        self.length = length

    def __call__(self, count: int, generator: torch.Generator) -> Int[Tensor, "{count} source"]:
        weights = torch.randn(count, self.vocab_size + 1, generator=generator).square()
        return torch.multinomial(weights, self.length, replacement=True, generator=generator)


class VariableLength:
    """Sampler that cuts the sequences of another sampler at a uniform length from 1 to their
    length, and pads them with blanks."""

    def __init__(self, sampler: LetterSampler) -> None:
        self.sampler = sampler

    def __call__(self, count: int, generator: torch.Generator) -> Int[Tensor, "{count} source"]:
        letters = self.sampler(count, generator)
        lengths = torch.randint(1, letters.size(1) + 1, (count, 1), generator=generator)
        return letters.where(torch.arange(letters.size(1)) < lengths, BLANK)


def fill_up(letters: Int[Tensor, "batch source"], length: int) -> Int[Tensor, "batch filled"]:
    """Pad sequences with blanks to this length. Longer sequences are unchanged."""
    return F.pad(letters, (0, max(0, length - letters.size(1))), value=BLANK)


def one_hot(
    letters: Int[Tensor, "batch source"], vocab_size: int
) -> Float[Tensor, "batch source symbol"]:
    """Return letter numbers as one-hot vectors. The first of the vocab_size + 1 symbols is the
    blank."""
    return torch.eye(vocab_size + 1)[letters]


def count(letters: Int[Tensor, "batch source"], vocab_size: int) -> Int[Tensor, "batch letter"]:
    """Return the number of each letter in each sequence, without blanks."""
    totals = letters.new_zeros(letters.size(0), vocab_size + 1)
    return totals.scatter_add_(1, letters, torch.ones_like(letters))[:, 1:]


def labels(
    counts: Int[Tensor, "batch letter"], max_len: int
) -> Float[Tensor, "batch letter class"]:
    """Return counts as one-hot vectors of the classes 0 to max_len. ValueError for a higher
    count."""
    highest = int(counts.max())
    if highest > max_len:
        raise ValueError(f"counts go up to {highest}, but max_len is {max_len}: raise max_len")
    return torch.eye(max_len + 1)[counts]


def to_text(numbers: Sequence[int]) -> str:
    """Return letter numbers as text: [1, 2, 0, 1] is "AB A"."""
    return "".join((" " + string.ascii_uppercase)[number] for number in numbers)


def to_numbers(text: str) -> list[int]:
    """Return text as letter numbers. ValueError for characters other than A to Z and the blank."""
    numbers = [(" " + string.ascii_uppercase).find(letter) for letter in text]
    if -1 in numbers:
        raise ValueError(f"expected A to Z and the blank, got {text[numbers.index(-1)]!r}")
    return numbers


def _check(vocab_size: int, length: int) -> None:
    if not 1 <= vocab_size <= MAX_VOCAB_SIZE:
        raise ValueError(f"vocab_size is {vocab_size}: expected 1 to {MAX_VOCAB_SIZE} letters")
    if length < 1:
        raise ValueError(f"length is {length}: expected at least one letter")
