"""Random sequences of letters to copy, to reverse ("q a f" to "f a q") or to sort. The correct
attention of every output letter is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from regard.data.examples import Pair
from regard.data.generated.distinct import distinct_pairs
from regard.errors import UserError


@dataclass(frozen=True)
class SequenceSettings:
    """Letters and lengths of sequences."""

    symbols: str = "abcdefghijklmnopqrstuvwxyz"
    """Distinct letters."""
    shortest: int = 3
    """Least number of letters in a sequence."""
    longest: int = 10
    """Largest number of letters in a sequence."""

    def __post_init__(self) -> None:
        if not self.symbols or len(set(self.symbols)) < len(self.symbols):
            raise UserError(f"symbols are {self.symbols!r}: expected different letters")
        if not 1 <= self.shortest <= self.longest:
            raise UserError(
                f"lengths from {self.shortest} to {self.longest}: expected 1 or more, rising"
            )

    @property
    def possible(self) -> int:
        """Number of distinct sequences."""
        lengths = range(self.shortest, self.longest + 1)
        return sum(len(self.symbols) ** length for length in lengths)


DEFAULT = SequenceSettings()


def copy(count: int, seed: int = 1, settings: SequenceSettings = DEFAULT) -> tuple[Pair, ...]:
    """Generate distinct sequences with themselves as targets."""
    return _pairs(count, seed, settings, lambda letters: letters)


def reverse(count: int, seed: int = 1, settings: SequenceSettings = DEFAULT) -> tuple[Pair, ...]:
    """Generate distinct sequences with their reversals as targets."""
    return _pairs(count, seed, settings, lambda letters: letters[::-1])


def sort(count: int, seed: int = 1, settings: SequenceSettings = DEFAULT) -> tuple[Pair, ...]:
    """Generate distinct sequences; targets are their letters in the order of `symbols`."""
    return _pairs(
        count, seed, settings, lambda letters: sorted(letters, key=settings.symbols.index)
    )


def _pairs(
    count: int, seed: int, settings: SequenceSettings, transform: Callable[[list[str]], list[str]]
) -> tuple[Pair, ...]:
    """Draw uniform lengths, then letters, until there are `count` distinct sequences. UserError for
    more than half of all sequences, for which drawing would be slow."""
    if not 1 <= count <= settings.possible // 2:
        raise UserError(
            f"{count} different sequences: expected 1 to {settings.possible // 2}, which is half "
            f"of all with {settings.shortest} to {settings.longest} of {settings.symbols!r}"
        )

    def draw(drawing: random.Random) -> tuple[str, str]:
        length = drawing.randint(settings.shortest, settings.longest)
        letters = drawing.choices(settings.symbols, k=length)
        return " ".join(letters), " ".join(transform(letters))

    return distinct_pairs(count, seed, "sequences", draw)
