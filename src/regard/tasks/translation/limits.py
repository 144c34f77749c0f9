"""Largest numbers of tokens that a run reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.config import DataConfig, ModelConfig, SearchConfig, longest_sequence

MAX_SCORED = 5000
"""Largest number of tokens on a side that is scored, unless `search.max_source` sets another."""


@dataclass(frozen=True)
class LengthLimit:
    """Largest number of tokens of a text, and the setting that it comes from."""

    tokens: int
    field: str = "search.max_source"

    @property
    def remedy(self) -> str:
        """Advice on reading longer texts."""
        if self.field == "search.max_source":
            return "raise --max-source"
        return "train with larger max_positions or other positions"


def limit_of_sources(
    search: SearchConfig, data: DataConfig, models: Iterable[ModelConfig]
) -> LengthLimit:
    """Return the limit of sources that a search decodes with these models."""
    return _limit(search.max_source or 2 * data.max_length, models)


def limit_of_scored(search: SearchConfig, models: Iterable[ModelConfig]) -> LengthLimit:
    """Return the limit of sources and targets that are scored by these models."""
    return _limit(search.max_source or MAX_SCORED, models)


def _limit(tokens: int, models: Iterable[ModelConfig]) -> LengthLimit:
    positions = longest_sequence(models)
    if positions is not None and positions < tokens:
        return LengthLimit(positions, "max_positions")
    return LengthLimit(tokens)
