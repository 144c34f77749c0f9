"""Weights of labels in a configuration: LABEL:WEIGHT, or balanced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.characters import composed, quoted
from regard.config.checks import parse_weight
from regard.errors import UserError

NAME = "training.label_weights"
"""Full name of the field."""
BALANCED = "balanced"
EXPECTED = f"expected {BALANCED}, or LABEL:WEIGHT for each label, such as spam:4"
MAX_WEIGHT = 1e6


def parse_label_weights(entries: Sequence[str]) -> Mapping[str, float]:
    """Return the weight of each label of the entries. UserError for a wrong entry, and for two
    weights of one label."""
    weights: dict[str, float] = {}
    for entry in entries:
        name, _, number = entry.rpartition(":")
        label = composed(name.strip())
        if not label:
            raise UserError(f"{NAME} has {quoted(entry, 40)}: {EXPECTED}")
        if label in weights:
            raise UserError(f"{NAME} has two weights of the label {quoted(label, 40)}: remove one")
        weights[label] = _weight(label, number)
    return weights


def _weight(label: str, number: str) -> float:
    weight = parse_weight(number, MAX_WEIGHT)
    if weight is None:
        raise UserError(
            f"{NAME} has the weight {quoted(number, 40)} for the label {quoted(label, 40)}: "
            f"expected a number above 0 and up to {MAX_WEIGHT:,.0f}"
        )
    return weight
