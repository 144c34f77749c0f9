"""The encoder and the decoder of a Transformer (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from regard.config.checks import (
    Dropout,
    Layers,
    Length,
    Size,
    changed_fields,
    check_heads,
    inherit,
    require_resolved,
)
from regard.config.parts.attention import AttentionConfig
from regard.config.parts.experts import ExpertsConfig, check_active
from regard.config.parts.part import Part
from regard.names import Activation, NormPlacement, PositionKind

__all__ = ["TransformerConfig", "TransformerDecoderConfig", "TransformerEncoderConfig"]


Config = TypeVar("Config", bound="TransformerConfig")


@dataclass(frozen=True)
class TransformerConfig(Part):
    """Base of encoders and decoders."""

    kind: Literal["transformer"] = "transformer"
    size: Size | None = None
    """Size of the embeddings and of every layer's states. Default: model.size."""
    layers: Layers = 3
    """Number of layers."""
    heads: Size = 4
    """Number of attention heads. They divide the size among them."""
    feed_forward: Size | None = None
    """Hidden units of the feed-forward networks. Default: four times the size."""
    activation: Activation = "relu"
    """Activation function of the feed-forward networks."""
    positions: PositionKind = "sinusoidal"
    """Positional encoding: sinusoidal or learned vectors added to the embeddings, or rotary
    (queries and keys are rotated)."""
    max_positions: Length = 512
    norm: NormPlacement = "pre"
    """Layer norm before each sublayer (pre, easier to train) or after its residual connection
    (post, as in the paper)."""
    dropout: Dropout | None = None
    """Dropout of the embeddings and of every sublayer's output. Default: model.dropout."""
    activation_dropout: Dropout = 0.0
    """Dropout of the hidden units of the feed-forward networks."""
    window: Size | None = None
    attention: AttentionConfig = field(default_factory=lambda: AttentionConfig(score="scaled_dot"))
    experts: ExpertsConfig = field(default_factory=ExpertsConfig)

    attends = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.section, self.size, self.heads, self.positions)
        check_active(self.section, self.experts)

    def resolve(self: Config, size: int, dropout: float) -> Config:
        """Return the record with inherited fields set."""
        part = inherit(self, size=size, dropout=dropout)
        size = require_resolved(part.size)
        part = inherit(part, feed_forward=4 * size)
        return replace(
            part,
            attention=part.attention.resolve(size // part.heads),
            experts=part.experts.resolve(require_resolved(part.feed_forward)),
        )

    @property
    def max_sequence(self) -> int | None:
        """The longest source or target, in tokens. None if there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.positions != "learned" and changed_fields(self, "max_positions"):
            yield "max_positions", f"{self.positions} positions have no limit"
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)
        yield from ((f"experts.{name}", reason) for name, reason in self.experts.unused)


@dataclass(frozen=True)
class TransformerEncoderConfig(TransformerConfig):
    """Layers of self-attention (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    """Kind of encoder."""
    max_positions: Length = 512
    """Number of learned positions: the longest source, in tokens."""
    window: Size | None = None
    """Attention span: number of positions on each side. Default: all."""

    section = "model.encoder"


@dataclass(frozen=True)
class TransformerDecoderConfig(TransformerConfig):
    """Layers of self-attention and cross-attention (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    """Kind of decoder."""
    layers: Layers = 3
    """Number of layers. Fewer layers decode faster."""
    max_positions: Length = 512
    """Number of learned positions: the longest target, in tokens."""
    window: Size | None = None
    """Attention span: number of earlier positions. Default: all."""

    section = "model.decoder"
