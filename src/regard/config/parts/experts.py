"""Mixture of experts: in place of the feed-forward networks of Transformers, and between recurrent
layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from regard.config.checks import Count, CountOrZero, Size, Weight, all_changed_fields, check_fields
from regard.errors import UserError


@dataclass(frozen=True)
class ExpertsConfig:
    """Mixture of experts (Shazeer et al. 2017)."""

    number: CountOrZero = 0
    """Number of experts in each layer of a Transformer, or between the last two recurrent layers,
    which need residual connections. 0: none (Transformers: one feed-forward network)."""
    active: Count = 2
    """Number of experts that compute each position."""
    size: Size | None = None
    """Hidden units of each expert. Default: feed_forward / active, so that a position costs as much
    as with one feed-forward network. Between recurrent layers: 4 times the field size / active."""
    importance: Weight = 0.01
    """Weight of the loss that gives experts equal sums of gate values. Published: 0.01 for
    translation, 0.1 for language models."""
    load: Weight = 0.01
    """Weight of the loss that gives experts equal numbers of positions. Published: as for
    importance."""
    initial_gate: Weight = 0.0
    """Standard deviation of the gate's first weights, times the square root of the size of its
    input. Published: 0, so that chance alone chooses the first experts. Short trainings need
    choices by the position from the start, for example with 2."""
    noise: Weight = 1.0
    """Factor of the standard deviations of the gate's noise in training, which are at least 0.01.
    Published: 1."""

    def __post_init__(self) -> None:
        check_fields("experts", self)

    def resolve(self, feed_forward: int) -> ExpertsConfig:
        """Set the size of experts, if there are any and it is not set. `feed_forward` is the number
        of hidden units of all active experts together."""
        if not self.number or self.size is not None:
            return self
        return replace(self, size=max(1, feed_forward // self.active))

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if not self.number:
            for name in all_changed_fields(self):
                yield name, "there are no experts: set experts.number"


def check_active(part: str, experts: ExpertsConfig) -> None:
    """Check the number of active experts. UserError if there are fewer experts."""
    if 0 < experts.number < experts.active:
        raise UserError(
            f"{part}.experts.active is {experts.active}, but {part}.experts.number is "
            f"{experts.number}: expected at most {experts.number} active experts; lower "
            f"{part}.experts.active"
        )


def check_between_layers(part: str, experts: ExpertsConfig, layers: int, connections: str) -> None:
    """Check experts between recurrent layers. UserError without two layers or residual
    connections, and for more active experts than there are."""
    check_active(part, experts)
    if not experts.number:
        return
    if connections != "residual":
        raise UserError(
            f"{part}.experts.number is {experts.number}, but {part}.connections is {connections}: "
            "expected residual, as experts have a residual connection; set connections to "
            "residual, or leave the experts out"
        )
    if layers == 1:
        raise UserError(
            f"{part}.experts.number is {experts.number}, but {part}.layers is 1: expected 2 layers "
            "or more, as experts are between the last two; add layers, or leave the experts out"
        )
