"""Weights of labels in the training loss, as `training.label_weights` sets them.

balanced: n / (k n_l) for n examples, k labels, and n_l examples of label l. Their mean over the
examples is 1, and all labels have equal shares of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.characters import quoted, with_escapes
from regard.config.label_weights import BALANCED, NAME, parse_label_weights
from regard.data.labels.targets import MAX_SHOWN, Labels
from regard.errors import UserError, listed


def label_weights_of(
    entries: tuple[str, ...] | None, labels: Labels, numbers: np.ndarray
) -> tuple[float, ...]:
    """Return the weight of each label for training examples whose labels have these numbers; empty
    if all are 1. UserError for a weight of an unknown label."""
    if entries is None:
        return ()
    if entries == (BALANCED,):
        counts = np.bincount(numbers, minlength=labels.size).clip(min=1)
        return tuple((len(numbers) / (labels.size * counts)).tolist())
    weights = parse_label_weights(entries)
    unknown = [label for label in weights if labels.number(label) is None]
    if unknown:
        shown = listed([with_escapes(name[:40]) for name in labels.names], 10)
        raise UserError(
            f"{NAME} has the label {quoted(unknown[0], 40)}, which is not in the training data: "
            f"expected one of {shown}"
        )
    by_number = {labels.number(label): weight for label, weight in weights.items()}
    return tuple(by_number.get(number, 1.0) for number in range(labels.size))


def describe(weights: Sequence[float], labels: Labels) -> tuple[str, ...]:
    """Return a line with the largest weights, if there are any."""
    if not weights:
        return ()
    pairs = sorted(zip(weights, labels.names, strict=True), reverse=True)
    shown = listed([f"{with_escapes(name[:40])} {weight:.3g}" for weight, name in pairs], MAX_SHOWN)
    return (f"label weights in the training loss: {shown}",)
