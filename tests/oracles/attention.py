"""Attention one query and one key at a time, in float64.

Scores are functions of one query and one key. The sparse normalisers find their threshold by
bisection; the package sorts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Vector = Sequence[float] | np.ndarray
Score = Callable[[Vector, Vector], float]
Normaliser = Callable[[Vector], list[float]]


def dot(query: Vector, key: Vector) -> float:
    return sum(float(q) * float(k) for q, k in zip(query, key, strict=True))


def scaled_dot(query: Vector, key: Vector) -> float:
    return dot(query, key) / math.sqrt(len(query))


def cosine(query: Vector, key: Vector) -> float:
    return dot(query, key) / math.sqrt(dot(query, query) * dot(key, key))


def general(matrix: np.ndarray) -> Score:
    """Return q W k."""
    return lambda query, key: dot(query, linear(matrix, key))


def additive(keys: np.ndarray, bias: Vector, queries: np.ndarray, vector: Vector) -> Score:
    """Return v . tanh(W1 k + b + W2 q)."""

    def score(query: Vector, key: Vector) -> float:
        inner = zip(linear(keys, key), bias, linear(queries, query), strict=True)
        return dot(vector, [math.tanh(k + b + q) for k, b, q in inner])

    return score


def concat(matrix: np.ndarray, bias: Vector, vector: Vector) -> Score:
    """Return v . tanh(W [q; k] + b)."""

    def score(query: Vector, key: Vector) -> float:
        joined = linear(matrix, [*query, *key])
        return dot(vector, [math.tanh(x + b) for x, b in zip(joined, bias, strict=True)])

    return score


def shared_additive(matrix: np.ndarray, bias: Vector, vector: Vector) -> Score:
    """Return v . tanh(W (q + k) + b)."""

    def score(query: Vector, key: Vector) -> float:
        both = linear(matrix, [q + k for q, k in zip(query, key, strict=True)])
        return dot(vector, [math.tanh(x + b) for x, b in zip(both, bias, strict=True)])

    return score


def coverage(vector: Vector, before: Sequence[Vector], place: int) -> list[float]:
    """Return u c_j, with the sum c_j of the weights of key j in the steps before."""
    taken = sum(float(weights[place]) for weights in before)
    return [float(number) * taken for number in vector]


def location(
    matrix: np.ndarray, filters: np.ndarray, before: Sequence[Vector], place: int
) -> list[float]:
    """Return V f_j, with the convolution f of the weights of the step before."""
    reach = filters.shape[1] // 2
    features = [0.0] * len(filters)
    for shift in range(-reach, reach + 1):
        if before and 0 <= place + shift < len(before[-1]):
            weight = float(before[-1][place + shift])
            features = [
                f + float(row[shift + reach]) * weight
                for f, row in zip(features, filters, strict=True)
            ]
    return linear(matrix, features)


def literal_concat(queries: np.ndarray, keys: np.ndarray, vector: Vector) -> Score:
    """Return v . tanh(concat(Wq q, Wk k)), which some tutorials show and which is no score."""

    def score(query: Vector, key: Vector) -> float:
        joined = [*linear(queries, query), *linear(keys, key)]
        return dot(vector, [math.tanh(x) for x in joined])

    return score


def softmax(scores: Vector) -> list[float]:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def sparsemax(scores: Vector) -> list[float]:
    return _above_threshold(scores, 1)


def entmax15(scores: Vector) -> list[float]:
    return _above_threshold([score / 2 for score in scores], 2)


def sigmoid(scores: Vector) -> list[float]:
    return [0.5 + 0.5 * math.tanh(score / 2) for score in scores]


def scaled_softmax(scores: Vector) -> list[float]:
    return [len(scores) * weight for weight in softmax(scores)]


def attend(
    queries: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    score: Score,
    normalise: Normaliser,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return contexts, weights and scores of "target query", "source key", "source value" and
    "target source"."""
    scores = np.array([[score(query, key) for key in keys] for query in queries])
    weights = np.array([masked(normalise, *row) for row in zip(scores, mask, strict=True)])
    contexts = np.zeros((len(queries), values.shape[1]))
    for target, row in enumerate(weights):
        for source, weight in enumerate(row):
            for number in range(values.shape[1]):
                contexts[target, number] += weight * values[source, number]
    return contexts, weights, scores


def masked(normalise: Normaliser, scores: Vector, mask: Sequence[bool]) -> list[float]:
    """Normalise the visible scores; return zeros for hidden ones."""
    visible = [score for score, shown in zip(scores, mask, strict=True) if shown]
    weights = iter(normalise(visible) if visible else [])
    return [next(weights) if shown else 0.0 for shown in mask]


def linear(matrix: np.ndarray, vector: Vector) -> list[float]:
    return [dot(row, vector) for row in matrix]


def _above_threshold(scores: Vector, power: int) -> list[float]:
    """Return max(s - tau, 0) ^ power with tau such that the result sums to one."""
    low, high = max(scores) - 1, max(scores)
    for _ in range(80):
        middle = (low + high) / 2
        if sum(max(score - middle, 0) ** power for score in scores) > 1:
            low = middle
        else:
            high = middle
    return [max(score - low, 0) ** power for score in scores]
