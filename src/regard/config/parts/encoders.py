"""Encoders: one record for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from regard.config.checks import (
    Dropout,
    Layers,
    Size,
    inherit,
    require_resolved,
)
from regard.config.parts.convolution import (
    DilatedConvolutionEncoderConfig,
    GatedConvolutionEncoderConfig,
)
from regard.config.parts.experts import ExpertsConfig, check_between_layers
from regard.config.parts.part import EncoderPart
from regard.config.parts.transformer import TransformerEncoderConfig
from regard.errors import UserError
from regard.names import CellKind, ConnectionKind

__all__ = [
    "BackboneEncoderConfig",
    "BagOfWordsEncoderConfig",
    "ConvolutionalEncoderConfig",
    "ImageEncoderConfig",
    "RecurrentEncoderConfig",
    "TextEncoderConfig",
]


@dataclass(frozen=True)
class RecurrentEncoderConfig(EncoderPart):
    """Recurrent layers over tokens or numbers."""

    kind: Literal["recurrent"] = "recurrent"
    """Kind of encoder."""
    cell: CellKind = "lstm"
    """Recurrent cell."""
    size: Size | None = None
    """Size of the states. A bidirectional encoder has half of it in each direction, with residual
    connections all of it. Default: model.size."""
    embedding: Size | None = None
    """Size of the token embeddings. Default: the size of the states."""
    layers: Layers = 1
    """Number of layers."""
    bidirectional: bool = False
    """Read the source in both directions."""
    connections: ConnectionKind = "none"
    """Skip connections of the layers: none, residual from the third layer on (Wu et al. 2016), or
    fast_forward from gates to gates (Zhou et al. 2016). With residual, the first layer of a
    bidirectional encoder has two directions, each of the full size, and the others read forwards.
    With fast_forward, it has two columns of layers in alternating directions, each of half the
    size."""
    dropout: Dropout | None = None
    """Dropout of the embeddings and between layers. Default: model.dropout."""
    experts: ExpertsConfig = field(default_factory=ExpertsConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between_layers("model.encoder", self.experts, self.layers, self.connections)
        if self.connections == "residual" and self.bidirectional:
            if self.layers == 1:
                raise UserError(
                    "model.encoder.connections is residual and model.encoder.bidirectional is set, "
                    "but model.encoder.layers is 1: expected 2 layers or more, as the layers above "
                    "the first give the last state; add layers, or set connections to none"
                )
        elif self.bidirectional and self.size is not None and self.size % 2:
            raise UserError(
                f"model.encoder.size is {self.size}: expected an even number, as a bidirectional "
                "encoder has half of it in each direction"
            )

    def resolve(self, size: int, dropout: float) -> RecurrentEncoderConfig:
        """Return the record with inherited fields set."""
        part = inherit(self, size=size, dropout=dropout)
        part = inherit(part, embedding=part.size)
        return replace(part, experts=part.experts.resolve(4 * require_resolved(part.size)))

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.connections == "fast_forward" and self.layers == 1 and not self.bidirectional:
            yield "connections", "the encoder has one layer"
        is_plain = self.layers < 3 and not self.bidirectional and not self.experts.number
        if self.connections == "residual" and is_plain:
            yield "connections", "residual connections begin with the third layer"
        yield from ((f"experts.{name}", reason) for name, reason in self.experts.unused)


@dataclass(frozen=True)
class BagOfWordsEncoderConfig(EncoderPart):
    """Embeddings without layers: every position is encoded by itself."""

    kind: Literal["bag_of_words"] = "bag_of_words"
    """Kind of encoder."""
    size: Size | None = None
    """Size of the token embeddings. Default: model.size."""
    dropout: Dropout | None = None
    """Dropout of the embeddings. Default: model.dropout."""

    def resolve(self, size: int, dropout: float) -> BagOfWordsEncoderConfig:
        """Return the record with inherited fields set."""
        return inherit(self, size=size, dropout=dropout)


@dataclass(frozen=True)
class ConvolutionalEncoderConfig(EncoderPart):
    """A small convolutional network over images, trained from scratch."""

    kind: Literal["convolutional"] = "convolutional"
    """Kind of encoder."""
    channels: tuple[Size, ...] = (32, 64, 128)
    """Channels of each block. A block halves the sides of the image; the last number is the size
    of the grid features."""
    dropout: Dropout | None = None
    """Dropout of the grid features. Default: model.dropout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels:
            raise UserError("model.encoder.channels is empty: expected one number or more")

    def resolve(self, size: int, dropout: float) -> ConvolutionalEncoderConfig:
        """Return the record with inherited fields set. The size is that of the last block."""
        del size
        return inherit(self, dropout=dropout)


@dataclass(frozen=True)
class BackboneEncoderConfig(EncoderPart):
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
    dropout: Dropout | None = None
    """Dropout of the grid features. Default: model.dropout."""

    def resolve(self, size: int, dropout: float) -> BackboneEncoderConfig:
        """Return the record with inherited fields set. UserError if no network is named."""
        if self.name is None:
            raise UserError(
                "model.encoder.name is not set: name a pretrained network, as in "
                "--model.encoder.name microsoft/resnet-18"
            )
        return inherit(self, size=size, dropout=dropout)


TextEncoderConfig = (
    RecurrentEncoderConfig
    | TransformerEncoderConfig
    | BagOfWordsEncoderConfig
    | GatedConvolutionEncoderConfig
    | DilatedConvolutionEncoderConfig
)
"""Encoders of tokens, or of numbers."""
ImageEncoderConfig = ConvolutionalEncoderConfig | BackboneEncoderConfig
