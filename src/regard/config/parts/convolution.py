"""Encoders and decoders of convolutions: ConvS2S (Gehring et al. 2017) and ByteNet (Kalchbrenner
et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

from regard.config.checks import (
    Dropout,
    Layers,
    Length,
    Range,
    Size,
    changed_fields,
    inherit,
    require_resolved,
)
from regard.config.parts.attention import AttentionConfig
from regard.config.parts.part import DecoderPart, EncoderPart
from regard.errors import UserError
from regard.names import AddedPositionKind

__all__ = [
    "DilatedConvolutionConfig",
    "DilatedConvolutionDecoderConfig",
    "DilatedConvolutionEncoderConfig",
    "GatedConvolutionConfig",
    "GatedConvolutionDecoderConfig",
    "GatedConvolutionEncoderConfig",
]

Unfolding = tuple[Annotated[float, Range(0, 100, is_open=True)], Annotated[int, Range(0, 10_000)]]
"""Number of columns for each source token, and number of further columns."""


@dataclass(frozen=True)
class GatedConvolutionEncoderConfig(EncoderPart):
    """Gated convolutions of the source (ConvS2S; Gehring et al. 2017)."""

    kind: Literal["gated_convolution"] = "gated_convolution"
    """Kind of encoder."""
    size: Size | None = None
    """Size of the embeddings and of the output. Default: model.size."""
    layers: Layers = 4
    """Number of layers."""
    channels: tuple[Size, ...] | None = None
    """Channels of each layer, or one number for all. Default: the size."""
    widths: tuple[Size, ...] = (3,)
    """Kernel width of each layer, or one number for all: odd numbers of positions that an output
    reads. Seven layers of width 3 read 15 source positions."""
    positions: AddedPositionKind = "learned"
    """Positional encoding: sinusoidal or learned vectors added to the embeddings."""
    max_positions: Length = 512
    """Number of learned positions: the longest source, in tokens."""
    dropout: Dropout | None = None
    """Dropout of the embeddings and of every convolution's input. Default: model.dropout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths("model.encoder", self)
        even = [width for width in self.widths if width % 2 == 0]
        if even:
            raise UserError(
                f"model.encoder.widths has {even[0]}: expected odd numbers, as the window of a "
                "source position has as many positions before it as after it"
            )

    def resolve(self, size: int, dropout: float) -> GatedConvolutionEncoderConfig:
        """Return the record with inherited fields set."""
        return _resolve(self, size, dropout)

    @property
    def max_sequence(self) -> int | None:
        """The longest source, in tokens. None if there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        return _unused_positions(self)


@dataclass(frozen=True)
class GatedConvolutionDecoderConfig(DecoderPart):
    """Gated convolutions with attention in every layer (ConvS2S; Gehring et al. 2017)."""

    kind: Literal["gated_convolution"] = "gated_convolution"
    """Kind of decoder."""
    size: Size | None = None
    """Size of the embeddings and of the attention's queries. Default: model.size."""
    layers: Layers = 4
    """Number of layers."""
    channels: tuple[Size, ...] | None = None
    """Channels of each layer, or one number for all. Default: the size."""
    widths: tuple[Size, ...] = (3,)
    """Kernel width of each layer, or one number for all: number of target positions that an output
    reads."""
    output_size: Size | None = None
    """Size of the features from which logits are computed. Default: the size."""
    positions: AddedPositionKind = "learned"
    """Positional encoding: sinusoidal or learned vectors added to the embeddings."""
    max_positions: Length = 512
    """Number of learned positions: the longest target, in tokens."""
    dropout: Dropout | None = None
    """Dropout of the embeddings, of every convolution's input and of the features. Default:
    model.dropout."""
    attention: AttentionConfig = field(default_factory=lambda: AttentionConfig(score="dot"))

    attends = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths("model.decoder", self)

    def resolve(self, size: int, dropout: float) -> GatedConvolutionDecoderConfig:
        """Return the record with inherited fields set."""
        part = _resolve(self, size, dropout)
        size = require_resolved(part.size)
        return replace(inherit(part, output_size=size), attention=part.attention.resolve(size))

    @property
    def max_sequence(self) -> int | None:
        """The longest target, in tokens. None if there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        yield from _unused_positions(self)
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)


GatedConvolutionConfig = GatedConvolutionEncoderConfig | GatedConvolutionDecoderConfig
Part = TypeVar("Part", GatedConvolutionEncoderConfig, GatedConvolutionDecoderConfig)


def _resolve(part: Part, size: int, dropout: float) -> Part:
    part = inherit(part, size=size, dropout=dropout)
    return inherit(part, channels=(require_resolved(part.size),))


def _check_lengths(section: str, part: GatedConvolutionConfig) -> None:
    """Raise a UserError for lists that have neither one number nor one for each layer."""
    for name, values in (("channels", part.channels), ("widths", part.widths)):
        if values is not None and len(values) not in (1, part.layers):
            raise UserError(
                f"{section}.{name} has {len(values)} numbers: expected one number, or one for each "
                f"of the {part.layers} layers ({section}.layers)"
            )


def _unused_positions(part: GatedConvolutionConfig) -> Iterator[tuple[str, str]]:
    if part.positions != "learned" and changed_fields(part, "max_positions"):
        yield "max_positions", f"{part.positions} positions have no limit"


@dataclass(frozen=True)
class DilatedConvolutionEncoderConfig(EncoderPart):
    """Dilated convolutions of the source (ByteNet; Kalchbrenner et al. 2016)."""

    kind: Literal["dilated_convolution"] = "dilated_convolution"
    """Kind of encoder."""
    size: Size | None = None
    """Size of the states; convolutions have half of it. Default: model.size."""
    embedding: Size | None = None
    """Size of the embeddings. Default: the size of the states."""
    sets: Layers = 2
    """Number of sets of blocks. A set has one block for each dilation."""
    dilations: tuple[Size, ...] = (1, 2, 4, 8, 16)
    """Dilation of each block of a set: distance between the positions that an output reads."""
    width: Size = 3
    """Kernel width: odd number of positions that an output reads."""
    unfolding: Unfolding = (1.2, 0)
    """Factor and addend of the number of columns: decoders of this kind read factor times source
    length plus addend columns, rounded up, and at least the source length."""
    dropout: Dropout | None = None
    """Dropout of the embeddings and of every block's output. Default: model.dropout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_blocks("model.encoder", self)
        if self.width % 2 == 0:
            raise UserError(
                f"model.encoder.width is {self.width}: expected an odd number, as the window of a "
                "source position has as many positions before it as after it"
            )

    def resolve(self, size: int, dropout: float) -> DilatedConvolutionEncoderConfig:
        """Return the record with inherited fields set."""
        part = inherit(self, size=size, dropout=dropout)
        return inherit(part, embedding=part.size)


@dataclass(frozen=True)
class DilatedConvolutionDecoderConfig(DecoderPart):
    """Dilated convolutions stacked on the encoder, without attention (ByteNet; Kalchbrenner et al.
    2016)."""

    kind: Literal["dilated_convolution"] = "dilated_convolution"
    """Kind of decoder."""
    size: Size | None = None
    """Size of the states; convolutions have half of it. Default: model.size."""
    embedding: Size | None = None
    """Size of the embeddings and of the features from which logits are computed. Default: the size
    of the states."""
    sets: Layers = 2
    """Number of sets of blocks. A set has one block for each dilation."""
    dilations: tuple[Size, ...] = (1, 2, 4, 8, 16)
    """Dilation of each block of a set: distance between the positions that an output reads."""
    width: Size = 3
    """Kernel width: number of positions that an output reads."""
    dropout: Dropout | None = None
    """Dropout of the embeddings, of every block's output and of the features. Default:
    model.dropout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_blocks("model.decoder", self)

    def resolve(self, size: int, dropout: float) -> DilatedConvolutionDecoderConfig:
        """Return the record with inherited fields set."""
        part = inherit(self, size=size, dropout=dropout)
        return inherit(part, embedding=part.size)


DilatedConvolutionConfig = DilatedConvolutionEncoderConfig | DilatedConvolutionDecoderConfig


def _check_blocks(section: str, part: DilatedConvolutionConfig) -> None:
    """Raise a UserError for an odd size, and without a dilation."""
    if part.size is not None and part.size % 2:
        raise UserError(
            f"{section}.size is {part.size}: expected an even number, as convolutions have half of "
            "it"
        )
    if not part.dilations:
        raise UserError(f"{section}.dilations is empty: expected one number or more")
