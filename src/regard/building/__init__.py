"""From configuration to objects: one function a family, one match a choice, no registries."""

from __future__ import annotations

from regard.building.attention import build_attention
from regard.building.captioner import build_captioner
from regard.building.classifier import build_classifier
from regard.building.recurrent import build_recurrent
from regard.building.transformer import build_transformer
from regard.config import RecurrentConfig, TransformerConfig, WriterConfig
from regard.models.seq2seq import Seq2Seq

__all__ = [
    "build_attention",
    "build_captioner",
    "build_classifier",
    "build_recurrent",
    "build_transformer",
    "build_translation",
]


def build_translation(config: WriterConfig, num_source: int, num_target: int) -> Seq2Seq:
    """The model of a recipe for vocabularies of these sizes; UserError where parts do not fit."""
    match config:
        case RecurrentConfig():
            return build_recurrent(config, num_source, num_target)
        case TransformerConfig():
            return build_transformer(config, num_source, num_target)
