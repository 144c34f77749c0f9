"""Mixture of experts of Shazeer et al. 2017, one position and one expert at a time in float64."""

from __future__ import annotations

import math

import numpy as np


def gate(
    x: np.ndarray,
    weight: np.ndarray,
    noise: np.ndarray,
    draws: np.ndarray,
    k: int,
    factor: float = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gate value of every expert (eq. 3 to 5) and the probability that each expert is
    chosen if its own noise is drawn again (eq. 9), for one position. `factor` multiplies
    the noise."""
    clean = [sum(w * number for w, number in zip(row, x, strict=True)) for row in weight]
    raw = [sum(w * number for w, number in zip(row, x, strict=True)) for row in noise]
    deviations = [factor * math.log1p(math.exp(number)) for number in raw]
    noisy = [c + d * s for c, d, s in zip(clean, draws, deviations, strict=True)]
    chosen = sorted(range(len(noisy)), key=lambda i: -noisy[i])[:k]
    total = sum(math.exp(noisy[i]) for i in chosen)
    values = np.array([math.exp(h) / total if i in chosen else 0.0 for i, h in enumerate(noisy)])
    probabilities = np.ones(len(noisy))
    for i in range(len(noisy)):
        rest = sorted((noisy[j] for j in range(len(noisy)) if j != i), reverse=True)
        if k <= len(rest):
            z = (clean[i] - rest[k - 1]) / deviations[i]
            probabilities[i] = (1 + math.erf(z / math.sqrt(2))) / 2
    return values, probabilities


def mixture(x: np.ndarray, values: np.ndarray, experts: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    """Return the sum of the outputs of the experts with a gate value (eq. 1), for one position.

    An expert has the matrix and the bias of each of its two layers; its activation is ReLU."""
    result = np.zeros(len(x))
    for value, (inner, inner_bias, outer, outer_bias) in zip(values, experts, strict=True):
        if value:
            hidden = np.maximum(0, x @ inner + inner_bias)
            result = result + value * (hidden @ outer + outer_bias)
    return result


def squared_variation(numbers: list[float]) -> float:
    """Return the squared coefficient of variation (eq. 7)."""
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / len(numbers) / mean**2
