"""Cross entropy with smoothed labels, one word at a time in float64."""

from __future__ import annotations

import numpy as np


def smoothed_cross_entropy(
    logits: np.ndarray, targets: np.ndarray, label_smoothing: float
) -> float:
    """Return the sum over words of the cross entropy against (1 - e) one-hot + e / |V|."""
    total = 0.0
    for row, target in zip(logits.astype(np.float64), targets, strict=True):
        highest = max(row)
        normaliser = highest + np.log(sum(np.exp(logit - highest) for logit in row))
        for word, logit in enumerate(row):
            share = label_smoothing / len(row)
            if word == target:
                share += 1 - label_smoothing
            total -= share * (logit - normaliser)
    return total
