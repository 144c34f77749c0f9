"""Measures of an attention map."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def entropy(weights: Float[np.ndarray, "*batch source"]) -> Float[np.ndarray, "*batch"]:
    """Return the entropy of each row, in nats: 0 if one position has all weight, log(source) for
    even weights.

    Rows are first normalised to a sum of 1; a row of zeros has entropy 0."""
    probabilities = _normalised(weights)
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return -(probabilities * logs).sum(axis=-1)


def coverage(
    weights: Float[np.ndarray, "*maps target source"],
) -> Float[np.ndarray, "*maps source"]:
    """Return the sum of the weights on each source position over all target positions."""
    return weights.sum(axis=-2)


def diagonality(weights: Float[np.ndarray, "target source"]) -> float:
    """Return how close the weights lie to the diagonal: 1 on it, 0 for even weights, below 0 for
    weights farther away (about -0.5 for a map on the opposite diagonal).

    Positions are fractions of their sequence, so the map need not be square. Pass
    `weights[:, ::-1]` for the opposite diagonal. ValueError for a map without any weight."""
    target_length, source_length = weights.shape
    total = weights.sum(dtype=np.float64)
    if not total > 0:
        raise ValueError(f"weights must have a positive sum, got {total} over {weights.shape}")
    target = (np.arange(target_length) + 0.5) / target_length
    source = (np.arange(source_length) + 0.5) / source_length
    distance = np.abs(target[:, None] - source)
    if not distance.any():
        return 1.0
    return float(1 - (weights * distance).sum() / total / distance.mean())


def share_on_diagonal(weights: Float[np.ndarray, "target source"]) -> float:
    """Return the share of rows whose largest weight is on the diagonal. Pass `weights[:, ::-1]` for
    the opposite diagonal. ValueError for a map without rows or columns."""
    if not weights.size:
        raise ValueError(f"weights must have rows and columns, got the shape {weights.shape}")
    return float((weights.argmax(axis=1) == np.arange(len(weights))).mean())


def _normalised(weights: Float[np.ndarray, "*batch source"]) -> Float[np.ndarray, "*batch source"]:
    weights = weights.astype(np.float64)
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
