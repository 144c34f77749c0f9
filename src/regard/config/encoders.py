"""Encoders: one record for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from regard.config.attention import AttentionConfig
from regard.config.checks import (
    Layers,
    Length,
    Share,
    Size,
    changed,
    check_fields,
    check_heads,
    first_set,
)
from regard.errors import UserError
from regard.names import Activation, CellKind, NormPlacement, PositionKind

__all__ = [
    "BackboneEncoderConfig",
    "BagOfWordsEncoderConfig",
    "ConvolutionalEncoderConfig",
    "EncoderConfig",
    "ImageEncoderConfig",
    "RecurrentEncoderConfig",
    "TextEncoderConfig",
    "TransformerEncoderConfig",
]


@dataclass(frozen=True)
class RecurrentEncoderConfig:
    """Recurrent layers over tokens or numbers."""

    kind: Literal["recurrent"] = "recurrent"
    """Kind of encoder."""
    cell: CellKind = "lstm"
    """Recurrent cell."""
    size: Size | None = None
    """Size of the states. A bidirectional encoder has half of it in each direction. Default:
    model.size."""
    embedding: Size | None = None
    """Size of the token embeddings. Default: the size of the states."""
    layers: Layers = 1
    """Number of layers."""
    bidirectional: bool = False
    """Read the source in both directions."""
    dropout: Share | None = None
    """Dropout of the embeddings and between layers. Default: model.dropout."""

    attends = False
    max_sequence = None
    unused = ()

    def __post_init__(self) -> None:
        check_fields("model.encoder", self)
        if self.bidirectional and self.size is not None and self.size % 2:
            raise UserError(
                f"model.encoder.size is {self.size}: expected an even number, as a bidirectional "
                "encoder has half of it in each direction"
            )

    def resolve(self, size: int, dropout: float) -> RecurrentEncoderConfig:
        """Set what is not set."""
        size = first_set(self.size, size)
        return replace(
            self,
            size=size,
            embedding=first_set(self.embedding, size),
            dropout=first_set(self.dropout, dropout),
        )


@dataclass(frozen=True)
class TransformerEncoderConfig:
    """Layers of self-attention (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    """Kind of encoder."""
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
    """Number of learned positions: the longest source, in tokens."""
    norm: NormPlacement = "pre"
    """Layer norm before each sublayer (pre, easier to train) or after its residual connection
    (post, as in the paper)."""
    dropout: Share | None = None
    """Dropout of the embeddings and of every sublayer's output. Default: model.dropout."""
    activation_dropout: Share = 0.0
    """Dropout of the hidden units of the feed-forward networks."""
    window: Size | None = None
    """Positions on each side that self-attention reaches. Default: all."""
    attention: AttentionConfig = field(default_factory=lambda: AttentionConfig(score="scaled_dot"))

    attends = True

    def __post_init__(self) -> None:
        check_fields("model.encoder", self)
        check_heads("model.encoder", self.size, self.heads, self.positions)

    def resolve(self, size: int, dropout: float) -> TransformerEncoderConfig:
        """Set what is not set."""
        size = first_set(self.size, size)
        resolved = replace(
            self,
            size=size,
            feed_forward=first_set(self.feed_forward, 4 * size),
            dropout=first_set(self.dropout, dropout),
        )
        return replace(resolved, attention=self.attention.resolve(size // self.heads))

    @property
    def max_sequence(self) -> int | None:
        """The longest source, in tokens. None if there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.positions != "learned" and changed(self, "max_positions"):
            yield "max_positions", f"{self.positions} positions have no limit"
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)


@dataclass(frozen=True)
class BagOfWordsEncoderConfig:
    """Embeddings without layers: every position is encoded by itself."""

    kind: Literal["bag_of_words"] = "bag_of_words"
    """Kind of encoder."""
    size: Size | None = None
    """Size of the token embeddings. Default: model.size."""
    dropout: Share | None = None
    """Dropout of the embeddings. Default: model.dropout."""

    attends = False
    max_sequence = None
    unused = ()

    def __post_init__(self) -> None:
        check_fields("model.encoder", self)

    def resolve(self, size: int, dropout: float) -> BagOfWordsEncoderConfig:
        """Set what is not set."""
        return replace(
            self, size=first_set(self.size, size), dropout=first_set(self.dropout, dropout)
        )


@dataclass(frozen=True)
class ConvolutionalEncoderConfig:
    """A small convolutional network over images, trained from scratch."""

    kind: Literal["convolutional"] = "convolutional"
    """Kind of encoder."""
    channels: tuple[Size, ...] = (32, 64, 128)
    """Channels of each block. A block halves the sides of the image; the last number is the size
    of the grid features."""
    dropout: Share | None = None
    """Dropout of the grid features. Default: model.dropout."""

    attends = False
    max_sequence = None
    unused = ()

    def __post_init__(self) -> None:
        check_fields("model.encoder", self)
        if not self.channels:
            raise UserError("model.encoder.channels is empty: expected one number or more")

    def resolve(self, size: int, dropout: float) -> ConvolutionalEncoderConfig:
        """Set what is not set. The size is that of the last block."""
        del size
        return replace(self, dropout=first_set(self.dropout, dropout))


@dataclass(frozen=True)
class BackboneEncoderConfig:
    """A pretrained vision network and a linear layer over its grid features."""

    kind: Literal["backbone"] = "backbone"
    """Kind of encoder."""
    name: str | None = None
    """Pretrained network (extra `vision`): a folder written by `transformers`, or a name on the
    Hugging Face hub. Required."""
    fine_tune: bool = False
    """Train the network too. Otherwise its features are computed once and cached on disk."""
    size: Size | None = None
    """Size of the grid features after the linear layer. Default: model.size."""
    dropout: Share | None = None
    """Dropout of the grid features. Default: model.dropout."""

    attends = False
    max_sequence = None
    unused = ()

    def __post_init__(self) -> None:
        check_fields("model.encoder", self)

    def resolve(self, size: int, dropout: float) -> BackboneEncoderConfig:
        """Set what is not set. UserError if no network is named."""
        if self.name is None:
            raise UserError(
                "model.encoder.name is not set: name a pretrained network, as in "
                "--model.encoder.name microsoft/resnet-18"
            )
        return replace(
            self, size=first_set(self.size, size), dropout=first_set(self.dropout, dropout)
        )


TextEncoderConfig = RecurrentEncoderConfig | TransformerEncoderConfig | BagOfWordsEncoderConfig
"""Encoders of tokens, or of numbers."""
ImageEncoderConfig = ConvolutionalEncoderConfig | BackboneEncoderConfig
EncoderConfig = TextEncoderConfig | ImageEncoderConfig
