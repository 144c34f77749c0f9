"""How text is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.config.checks import (
    Beam,
    Length,
    LengthOrZero,
    Positive,
    Weight,
    check_fields,
)
from regard.errors import UserError

MOST_STEPS = 1_000_000
"""Largest product of beam and length of an output."""


@dataclass(frozen=True)
class SearchConfig:
    """How text is decoded."""

    beam: Beam = 1
    """Hypotheses alive together; 1 is greedy."""
    length_penalty: Weight | Literal["average"] = "average"
    """Scores are divided by the length (average) or by Wu et al.'s ((5 + length) / 6) ** alpha."""
    coverage_penalty: Weight = 0.0
    """Weight of Wu et al.'s coverage penalty."""
    max_source: Length | None = None
    """Largest number of tokens of a source. A longer one is not decoded: its output is empty, and
    it is reported. By default twice data.max_length, as training had no longer sources."""
    min_length: LengthOrZero = 0
    """Tokens before an end is allowed."""
    max_length: Length | None = None
    """The most tokens; without it the source's times max_ratio, and ten more."""
    max_ratio: Positive | None = None
    """The most tokens for each of the source's; without it training sets it to twice what nearly
    all of its pairs need."""
    early_stopping: bool = True
    """End a beam once as many texts as it is wide are complete and no other is ahead of them;
    without it, once nothing can change any more."""
    unknown_replacement: bool = False
    """Put in the place of an <unk> what it looked at most in the source."""
    lexicon: Path | None = None
    """What to put there instead of the source's own word: pairs of words with a tab between."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of what the model computes while it searches; bfloat16 is faster where the CPU or GPU has
    instructions for it. Probabilities are float32 in both."""

    def __post_init__(self) -> None:
        check_fields("search", self)
        if self.max_length is not None and self.min_length > self.max_length:
            raise UserError(
                f"search.min_length is {self.min_length}: expected no more than search.max_length, "
                f"which is {self.max_length}"
            )
        if self.max_length is not None:
            check_steps(self.beam, self.max_length)


def check_steps(beam: int, longest: int) -> None:
    """UserError if a search may take more than `MOST_STEPS` steps for one output."""
    if beam * longest > MOST_STEPS:
        raise UserError(
            f"search.beam is {beam:,} and an output may have {longest:,} tokens, which makes up to "
            f"{beam * longest:,} steps: expected at most {MOST_STEPS:,}. Lower --beam, or set "
            "--max-length"
        )
