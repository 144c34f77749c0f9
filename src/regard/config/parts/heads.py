"""Heads: a pooled vector of the source, and the layer from it to labels or numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from regard.config.checks import Dropout, inherit
from regard.config.parts.attention import AttentionConfig
from regard.config.parts.part import HeadPart
from regard.names import HeadOutputKind, HeadQueryKind

__all__ = [
    "AttentionHeadConfig",
    "HeadConfig",
    "LastHeadConfig",
    "MeanHeadConfig",
]


Config = TypeVar("Config", bound="_PooledHeadConfig")


@dataclass(frozen=True)
class _PooledHeadConfig(HeadPart):
    """Base of heads without attention."""

    kind: str
    output: HeadOutputKind = "linear"
    """Layer from the vector to the prediction: a linear layer, or none (the vector is the
    prediction)."""
    dropout: Dropout | None = None
    """Dropout of the vector. Default: model.dropout."""

    def resolve(self: Config, size: int, dropout: float) -> Config:
        """Return the record with inherited fields set."""
        del size
        return inherit(self, dropout=dropout)


@dataclass(frozen=True)
class LastHeadConfig(_PooledHeadConfig):
    """The encoder's last state."""

    kind: Literal["last"] = "last"
    """Kind of head."""


@dataclass(frozen=True)
class MeanHeadConfig(_PooledHeadConfig):
    """The mean of the encoder's states."""

    kind: Literal["mean"] = "mean"
    """Kind of head."""


@dataclass(frozen=True)
class AttentionHeadConfig(HeadPart):
    """The mean of the encoder's states, weighted by the attention of one query."""

    kind: Literal["attention"] = "attention"
    """Kind of head."""
    query: HeadQueryKind = "learned"
    """Attention query: one learned vector, or the encoder's last state."""
    output: HeadOutputKind = "linear"
    """Layer from the vector to the prediction: a linear layer, or none (the vector is the
    prediction)."""
    dropout: Dropout | None = None
    """Dropout of the vector. Default: model.dropout."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)

    attends = True

    def resolve(self, size: int, dropout: float) -> AttentionHeadConfig:
        """Return the record with inherited fields set."""
        part = inherit(self, dropout=dropout)
        return replace(part, attention=self.attention.resolve(size))

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)


HeadConfig = LastHeadConfig | MeanHeadConfig | AttentionHeadConfig
