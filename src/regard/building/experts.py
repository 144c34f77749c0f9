"""Mixtures of experts from their configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from regard.config import (
    DecoderConfig,
    ExpertsConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    TextEncoderConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)
from regard.config.checks import require_resolved
from regard.models.contracts import TrainedDecoder
from regard.names import Activation

if TYPE_CHECKING:  # imported for a model that has experts
    from regard.layers.experts import Experts, NoisyTopKGate, SigmoidExperts


def encoder_with_experts(config: TextEncoderConfig, encoder: nn.Module) -> nn.Module:
    """Return the encoder of a configuration, or its wrapper if it has experts."""
    if not _has_experts(config):
        return encoder
    from regard.models.experts import EncoderWithExperts

    return EncoderWithExperts(encoder)


def decoder_with_experts(config: DecoderConfig, decoder: TrainedDecoder) -> TrainedDecoder:
    """Return the decoder of a configuration, or its wrapper if it has experts."""
    if not _has_experts(config):
        return decoder
    from regard.models.experts import DecoderWithExperts

    return DecoderWithExperts(decoder)


def _has_experts(config: TextEncoderConfig | DecoderConfig) -> bool:
    with_experts = (
        RecurrentEncoderConfig
        | RecurrentDecoderConfig
        | TransformerEncoderConfig
        | TransformerDecoderConfig
    )
    return isinstance(config, with_experts) and config.experts.number > 0


def build_experts(
    config: ExpertsConfig, size: int, activation: Activation, *, dropout: float
) -> Experts | None:
    """Build experts for states of this size; None if the number of experts is 0. `dropout` is that
    of their hidden units."""
    if not config.number:
        return None
    from regard.layers.experts import Experts

    return Experts(
        _build_gate(config, size),
        require_resolved(config.size),
        activation,
        dropout=dropout,
        importance=config.importance,
        load=config.load,
    )


def build_experts_between_layers(config: ExpertsConfig, size: int) -> SigmoidExperts | None:
    """Build the experts of a `ResidualStack`; None if the number of experts is 0."""
    if not config.number:
        return None
    from regard.layers.experts import SigmoidExperts

    return SigmoidExperts(
        _build_gate(config, size),
        require_resolved(config.size),
        importance=config.importance,
        load=config.load,
    )


def _build_gate(config: ExpertsConfig, size: int) -> NoisyTopKGate:
    from regard.layers.experts import NoisyTopKGate

    return NoisyTopKGate(
        size,
        config.number,
        config.active,
        initial_scale=config.initial_gate,
        noise_scale=config.noise,
    )
