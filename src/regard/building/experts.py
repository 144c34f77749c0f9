"""Mixtures of experts from their configuration."""

from __future__ import annotations

from torch import nn

from regard.config import ExpertsConfig
from regard.config.checks import require_resolved
from regard.layers.experts import Experts, NoisyTopKGate, SigmoidExperts
from regard.models.contracts import TrainedDecoder
from regard.models.experts import DecoderWithExperts, EncoderWithExperts
from regard.names import Activation


def encoder_with_experts(encoder: nn.Module) -> nn.Module:
    """Return an encoder, or its wrapper if it has experts."""
    return EncoderWithExperts(encoder) if _has_experts(encoder) else encoder


def decoder_with_experts(decoder: TrainedDecoder) -> TrainedDecoder:
    """Return a decoder, or its wrapper if it has experts."""
    return DecoderWithExperts(decoder) if _has_experts(decoder) else decoder


def _has_experts(part: object) -> bool:
    modules = part.modules() if isinstance(part, nn.Module) else ()
    return any(isinstance(module, Experts) for module in modules)


def build_experts(
    config: ExpertsConfig, size: int, activation: Activation, *, dropout: float
) -> Experts | None:
    """Build experts for states of this size; None if the number of experts is 0. `dropout` is that
    of their hidden units."""
    if not config.number:
        return None
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
    return SigmoidExperts(
        _build_gate(config, size),
        require_resolved(config.size),
        importance=config.importance,
        load=config.load,
    )


def _build_gate(config: ExpertsConfig, size: int) -> NoisyTopKGate:
    return NoisyTopKGate(
        size,
        config.number,
        config.active,
        initial_scale=config.initial_gate,
        noise_scale=config.noise,
    )
