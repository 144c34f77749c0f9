"""Pointer-generator of See et al. 2017, one word of one position at a time in float64."""

from __future__ import annotations

import numpy as np


def mixture(
    probabilities: np.ndarray,
    weights: np.ndarray,
    values: np.ndarray,
    features: np.ndarray,
    gate: tuple[np.ndarray, float],
    numbers: list[int],
) -> np.ndarray:
    """Return P of the extended vocabulary for one target position (eq. 3, 8 and 9).

    `probabilities` are those of the generator, `weights` the attention on each source position,
    `gate` the weights and the bias of the probability to generate."""
    context = np.zeros(values.shape[1])
    for position, weight in enumerate(weights):
        context = context + weight * values[position]
    inputs = [*context, *features]
    logit = gate[1] + sum(w * x for w, x in zip(gate[0], inputs, strict=True))
    generate = 1 / (1 + np.exp(-logit))
    extended = np.zeros(len(probabilities) + len(weights))
    for word, probability in enumerate(probabilities):
        extended[word] = generate * probability
    for number, weight in zip(numbers, weights, strict=True):
        extended[number] += (1 - generate) * weight
    return extended


def loss(
    mixtures: list[np.ndarray],
    probabilities: list[np.ndarray],
    targets: list[int],
    label_smoothing: float,
) -> float:
    """Return the sum over words of -(1 - e) log P(y) - e / |V| sum over v of log P_vocab(v)."""
    total = 0.0
    for mixed, own, target in zip(mixtures, probabilities, targets, strict=True):
        total -= (1 - label_smoothing) * np.log(mixed[target])
        for probability in own:
            total -= label_smoothing / len(own) * np.log(probability)
    return total
