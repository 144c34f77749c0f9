"""Largest numbers of tokens that a run reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.config import DataConfig, ModelConfig, SearchConfig

MAX_SOURCE = "search.max_source"
MAX_SCORED = 5000
"""Largest number of tokens on a side that is scored, unless `search.max_source` sets another."""
SCORE_LIMIT = "the limit of scores"


@dataclass(frozen=True)
class LengthLimit:
    """Largest number of tokens of a text, and the setting that it comes from."""

    tokens: int
    field: str = MAX_SOURCE

    @property
    def remedy(self) -> str:
        """Advice on reading longer texts."""
        if self.field == MAX_SOURCE:
            return "raise --max-source"
        return f"train with a larger {self.field} or other positions"


def limit_of_sources(
    search: SearchConfig, data: DataConfig, models: Iterable[ModelConfig]
) -> LengthLimit:
    """Return the limit of sources that a search decodes with these models."""
    return _limit(search.max_source or 2 * data.max_length, models)


def limit_of_scored(search: SearchConfig, models: Iterable[ModelConfig]) -> LengthLimit:
    """Return the limit of sources and targets that are scored by these models."""
    name = SCORE_LIMIT if search.max_source is None else MAX_SOURCE
    return _limit(search.max_source or MAX_SCORED, models, name)


def _limit(tokens: int, models: Iterable[ModelConfig], name: str = MAX_SOURCE) -> LengthLimit:
    positions = [
        LengthLimit(part.max_sequence, f"model.{name}.max_positions")
        for model in models
        for name, part in model.parts.items()
        if part.max_sequence is not None
    ]
    default = LengthLimit(tokens, name)
    shortest = min(positions, key=lambda limit: limit.tokens, default=default)
    return shortest if shortest.tokens <= tokens else default
