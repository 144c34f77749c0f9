"""Mixtures of experts from their configuration."""

from __future__ import annotations

from regard.config import ExpertsConfig
from regard.config.checks import require_resolved
from regard.layers.experts import Experts, NoisyTopKGate
from regard.names import Activation


def build_experts(
    config: ExpertsConfig,
    size: int,
    activation: Activation = "relu",
    *,
    dropout: float = 0.0,
    initial_bias: float = 0.0,
) -> Experts | None:
    """Build experts for states of this size; None if the number of experts is 0. `dropout` is that
    of their hidden units, `initial_bias` that of their outputs."""
    if not config.number:
        return None
    return Experts(
        NoisyTopKGate(
            size,
            config.number,
            config.active,
            initial_scale=config.initial_gate,
            noise_scale=config.noise,
        ),
        require_resolved(config.size),
        activation,
        dropout=dropout,
        importance=config.importance,
        load=config.load,
        initial_bias=initial_bias,
    )
