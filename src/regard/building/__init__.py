"""Build models from their configuration. Each function has one `match` over the kinds of its
part."""

from __future__ import annotations

from regard.building.attention import build_attention, build_decoder_attention
from regard.building.models import build_captioner, build_classifier, build_translation

__all__ = [
    "build_attention",
    "build_captioner",
    "build_classifier",
    "build_decoder_attention",
    "build_translation",
]
