"""Search: how outputs are decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from regard.config.checks import (
    BeamSize,
    Factor,
    Length,
    LengthOrZero,
    Positive,
    Range,
    Weight,
    check_fields,
)
from regard.errors import UserError
from regard.names import LengthPenaltyName, SearchPrecision, UnknownRule

Mebibytes = Annotated[int, Range(1, 1 << 24)]
MAX_STEPS = 1_000_000
"""Largest product of beam and length of an output."""


@dataclass(frozen=True)
class SearchConfig:
    """Beam search and its limits."""

    beam: BeamSize = 1
    """Beam size: the number of live hypotheses. 1 is greedy search."""
    length_penalty: Weight | LengthPenaltyName = "average"
    """Divisor of a hypothesis's log probability: its length (average), or ((5 + length) / 6) to
    the power of this number (Wu et al. 2016)."""
    coverage_penalty: Weight = 0.0
    """Weight of the coverage penalty (Wu et al. 2016)."""
    no_repeat_ngram: LengthOrZero = 0
    """Number of tokens in a row that an output may not have twice; 0 for no limit."""
    repetition_penalty: Factor = 1.0
    """Factor of the log probability of a token that the output has already (after Keskar et al.
    2019); 1 for no penalty. Scores include it."""
    max_source: Length | None = None
    """Longest source, in tokens. A longer source is reported and its output is empty. Default:
    twice data.max_length, the longest source of training."""
    min_length: LengthOrZero = 0
    """Minimum number of tokens of an output. Without max_length, the maximum is at least as
    large."""
    max_length: Length | None = None
    """Maximum number of tokens of an output. Default: max_ratio times the length of the source,
    plus 10."""
    max_ratio: Positive | None = None
    """Maximum number of output tokens per source token. Default: twice the 99.9th percentile of
    this ratio in the training pairs; training sets it."""
    max_memory: Mebibytes | None = None
    """Largest estimated memory in MiB that decoding one text may take, its attention included, and
    that the attention of all results of a call may take. Default: half of the free memory."""
    early_stopping: bool = True
    """Stop when as many hypotheses as the beam size are finished and no live hypothesis scores
    higher. Without it, stop when no live hypothesis can reach the n-best list."""
    unknown: UnknownRule | None = None
    """Whether <unk> may be generated (allow), or the most probable known word takes its place
    (forbid). Default: forbid for captions, allow for other texts."""
    unknown_replacement: bool = False
    """Replace <unk> in the output by the source word with the largest attention weight."""
    lexicon: Path | None = None
    """Translations of the source words that replace <unk>: a file of WORD TAB TRANSLATION lines."""
    precision: SearchPrecision = "float32"
    """Precision of the model while decoding. bfloat16 is faster in batches if the CPU or GPU has
    instructions for it, int8 for larger models on a CPU. Probabilities are always float32."""

    def __post_init__(self) -> None:
        check_fields("search", self)
        if self.max_length is not None and self.min_length > self.max_length:
            raise UserError(
                f"search.min_length is {self.min_length}: expected no more than search.max_length, "
                f"which is {self.max_length}"
            )
        if self.unknown == "forbid" and self.unknown_replacement:
            raise UserError(
                "search.unknown is forbid, but search.unknown_replacement replaces <unk> in the "
                "output: leave one of them out"
            )
        if self.max_length is not None:
            check_steps(self.beam, self.max_length)


def check_steps(beam: int, longest: int) -> None:
    """Raise a UserError if a search may take more than `MAX_STEPS` steps for one output."""
    if beam * longest > MAX_STEPS:
        raise UserError(
            f"search.beam is {beam:,} and an output may have {longest:,} tokens, which makes up to "
            f"{beam * longest:,} steps: expected at most {MAX_STEPS:,}. Lower --beam, or set "
            "--max-length"
        )
