"""Numbers about an attention map."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def entropy(weights: Float[np.ndarray, "*rows source"]) -> Float[np.ndarray, "*rows"]:
    """How spread each row is, in nats: 0 for one position, log(source) for all alike.

    Rows are first made to sum to one; a row of zeros has entropy 0."""
    shares = _shares(weights)
    logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return -(shares * logarithms).sum(axis=-1)


def coverage(
    weights: Float[np.ndarray, "*maps target source"],
) -> Float[np.ndarray, "*maps source"]:
    """How much each source position was looked at, over all target positions."""
    return weights.sum(axis=-2)


def diagonality(weights: Float[np.ndarray, "target source"]) -> float:
    """How near to the diagonal the weights lie: 1 on it, 0 as near as even weights, less than 0
    beyond that (a map that keeps to the other diagonal has about -0.5).

    Positions count as shares of their sequence, so the map need not be square. For the other
    diagonal hand in `weights[:, ::-1]`. ValueError for a map without any weight."""
    num_target, num_source = weights.shape
    total = weights.sum(dtype=np.float64)
    if not total > 0:
        raise ValueError(f"weights must have a positive sum, got {total} over {weights.shape}")
    down = (np.arange(num_target) + 0.5) / num_target
    across = (np.arange(num_source) + 0.5) / num_source
    distance = np.abs(down[:, None] - across)
    if not distance.any():
        return 1.0
    return float(1 - (weights * distance).sum() / total / distance.mean())


def share_on_diagonal(weights: Float[np.ndarray, "target source"]) -> float:
    """Of all rows, the share whose largest weight is at their own number. For the other diagonal
    hand in `weights[:, ::-1]`. ValueError for a map without rows or columns."""
    if not weights.size:
        raise ValueError(f"weights must have rows and columns, got the shape {weights.shape}")
    return float((weights.argmax(axis=1) == np.arange(len(weights))).mean())


def _shares(weights: Float[np.ndarray, "*rows source"]) -> Float[np.ndarray, "*rows source"]:
    weights = weights.astype(np.float64)
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
