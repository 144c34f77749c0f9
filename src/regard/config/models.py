"""Models: one record for each task, made of an encoder and a decoder or a head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from regard.config.checks import Dropout, Size, check_fields
from regard.config.parts.decoders import DecoderConfig, RecurrentDecoderConfig
from regard.config.parts.encoders import (
    BackboneEncoderConfig,
    ConvolutionalEncoderConfig,
    ImageEncoderConfig,
    RecurrentEncoderConfig,
    TextEncoderConfig,
)
from regard.config.parts.heads import AttentionHeadConfig, HeadConfig
from regard.errors import UserError
from regard.names import CopyKind, SizedScoreName, TiedWeights

AnyModel = TypeVar("AnyModel", bound="_Model")


class _Model:
    """Base of models. Their fields are checked when a record is made."""

    def __post_init__(self) -> None:
        check_fields("model", self)

    def resolve(self: AnyModel) -> AnyModel:
        """Set the sizes and dropouts that the parts inherit."""
        model: Any = self
        parts = {
            name: part.resolve(model.size, model.dropout) for name, part in model.parts.items()
        }
        resolved: AnyModel = replace(model, **parts)
        return resolved


@dataclass(frozen=True)
class TranslationModelConfig(_Model):
    """A model from text to text: an encoder and a decoder."""

    size: Size = 256
    """Size of the states of encoder and decoder, unless they set their own."""
    dropout: Dropout = 0.0
    """Dropout of encoder and decoder, unless they set their own."""
    encoder: TextEncoderConfig = field(default_factory=RecurrentEncoderConfig)
    decoder: DecoderConfig = field(default_factory=RecurrentDecoderConfig)
    tied: TiedWeights = "none"
    """Share the target embeddings with the output layer (output), or with the output layer and the
    source embeddings (all; needs data.shared_vocabulary)."""
    copy: CopyKind = "none"
    """Output: words of the vocabulary (none), or words of the vocabulary and words copied from the
    source (pointer_generator; See et al. 2017), for names and other unknown words."""
    vectors: Path | None = None
    """Text file of fixed embeddings for both sides: a token and its numbers on each line."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copy != "none" and not self.decoder.attends:
            raise UserError(
                f"model.copy is {self.copy}, which copies by the decoder's attention, but this "
                f"{self.decoder.kind} decoder has no attention: choose a decoder with attention, "
                "such as model.decoder.kind recurrent with model.decoder.wiring luong, or set "
                "model.copy to none"
            )
        if self.tied == "all":
            sizes = [embedding_size(part) for part in (self.encoder, self.decoder)]
            if None not in sizes and sizes[0] != sizes[1]:
                raise UserError(
                    "model.tied is all, but embeddings have "
                    f"{sizes[0]} numbers in the encoder and {sizes[1]} in the decoder: set "
                    "model.encoder.embedding and model.decoder.embedding to one number"
                )

    @property
    def parts(self) -> dict[str, TextEncoderConfig | DecoderConfig]:
        """Encoder and decoder by name."""
        return {"encoder": self.encoder, "decoder": self.decoder}


@dataclass(frozen=True)
class ClassificationModelConfig(_Model):
    """A model from a source to a label or to numbers: an encoder and a head."""

    size: Size = 256
    """Size of the encoder's states, unless it sets its own, and of the head's attention."""
    dropout: Dropout = 0.3
    """Dropout of encoder and head, unless they set their own."""
    encoder: TextEncoderConfig = field(
        default_factory=lambda: RecurrentEncoderConfig(bidirectional=True)
    )
    head: HeadConfig = field(default_factory=AttentionHeadConfig)
    vectors: Path | None = None
    """GloVe or word2vec text file of embeddings to start from. Words that are not in the file keep
    random embeddings; `--training.freeze encoder.embedding` keeps all embeddings fixed."""

    @property
    def parts(self) -> dict[str, TextEncoderConfig | HeadConfig]:
        """Encoder and head by name."""
        return {"encoder": self.encoder, "head": self.head}


@dataclass(frozen=True)
class CaptionModelConfig(_Model):
    """A model from an image to text: an encoder and a decoder."""

    size: Size = 256
    """Size of the decoder's states, and of a backbone's grid features, unless they set their
    own."""
    dropout: Dropout = 0.1
    """Dropout of encoder and decoder, unless they set their own."""
    encoder: ImageEncoderConfig = field(default_factory=ConvolutionalEncoderConfig)
    decoder: DecoderConfig = field(
        default_factory=lambda: RecurrentDecoderConfig(wiring="bahdanau", output="deep", gate=True)
    )

    @property
    def parts(self) -> dict[str, ImageEncoderConfig | DecoderConfig]:
        """Encoder and decoder by name."""
        return {"encoder": self.encoder, "decoder": self.decoder}


ModelConfig = TranslationModelConfig | ClassificationModelConfig | CaptionModelConfig
PartConfig = TextEncoderConfig | ImageEncoderConfig | DecoderConfig | HeadConfig
MODELS: dict[str, type[ModelConfig]] = {
    "translate": TranslationModelConfig,
    "classify": ClassificationModelConfig,
    "caption": CaptionModelConfig,
}
"""The model section of each task."""


def _kinds(*records: Any) -> dict[str, Any]:
    return {record.kind: record for union in records for record in get_args(union)}


KINDS: dict[str, dict[str, dict[str, type[PartConfig]]]] = {
    "translate": {"encoder": _kinds(TextEncoderConfig), "decoder": _kinds(DecoderConfig)},
    "classify": {"encoder": _kinds(TextEncoderConfig), "head": _kinds(HeadConfig)},
    "caption": {"encoder": _kinds(ImageEncoderConfig), "decoder": _kinds(DecoderConfig)},
}
"""The parts of each task's model, with the record of each kind."""


def embedding_size(part: PartConfig) -> int | None:
    """Size of the token embeddings of a part. None if it is inherited and not resolved."""
    return getattr(part, "embedding", None) or getattr(part, "size", None)


def has_attention(model: ModelConfig) -> bool:
    """Whether a part of the model computes attention, which `regard plot` can draw."""
    return any(part.attends for part in model.parts.values())


def is_fine_tuned(model: CaptionModelConfig) -> bool:
    """Whether the model trains a pretrained vision network."""
    return isinstance(model.encoder, BackboneEncoderConfig) and model.encoder.fine_tune


def inheriting(model: ModelConfig, name: str) -> list[str]:
    """Return the parts that take a field (`size` or `dropout`) from the model."""
    names = [part for part, record in model.parts.items() if getattr(record, name, 0) is None]
    head = model.parts.get("head")
    if name == "size" and isinstance(head, AttentionHeadConfig):
        attention = head.attention
        if attention.size is None and attention.score in get_args(SizedScoreName):
            names.append("head")
    return names


def longest_sequence(models: Iterable[ModelConfig]) -> int | None:
    """Return the longest source or target, in tokens, that all of these models have positions for.
    None if there is no limit."""
    limits = (part.max_sequence for model in models for part in model.parts.values())
    return min((limit for limit in limits if limit is not None), default=None)
