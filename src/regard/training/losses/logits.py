"""Functions of the logits x = projection(features): cross entropy, any other loss, and log
probabilities of targets.

Here all logits of a batch are in memory. Accelerated by `compiled/losses/`, which computes them for
some words at a time, equal in tests/compiled/losses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from regard.numerics.precision import at_least_float32
from regard.shapes import Float, Int, Tensor

LogitLoss = Callable[[Float[Tensor, "pass word vocabulary"], slice], Float[Tensor, "term"]]
"""Function from the logits of some words, in every pass, and the places of these words to the terms
of a loss, summed over these words."""


def cross_entropy(
    features: Float[Tensor, "word feature"],
    projection: nn.Module,
    targets: Int[Tensor, "word"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the sum over words of -(1 - smoothing) log p(target) - smoothing / V sum_v log p(v),
    in nats (Szegedy et al. 2016, section 7), in float32 or float64."""
    logits = at_least_float32(projection(features))
    # Szegedy et al. 2016, section 7 if label_smoothing and decoder: (1 - e) H(q, p) + e H(u, p)
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


def loss_of_logits(
    features: Float[Tensor, "pass word feature"], projection: nn.Module, loss: LogitLoss
) -> tuple[Float[Tensor, ""], Float[Tensor, "term"]]:
    """Return the sum of all terms over all words, with its gradient, and each term. `features` are
    those of one or more passes of a model through the same words."""
    terms = loss(projection(features), slice(0, features.size(1)))
    return terms.sum(), terms


def log_probabilities(
    features: Float[Tensor, "word feature"], projection: nn.Module, targets: Int[Tensor, "word"]
) -> Float[Tensor, "word"]:
    """Return the log probability of each target, in float32 or float64, with gradients."""
    logs = at_least_float32(projection(features)).log_softmax(dim=1)
    return logs.gather(1, targets[:, None])[:, 0]


@dataclass(frozen=True)
class LogitFunctions:
    """Functions that objectives apply to features and their projection to logits."""

    cross_entropy: Callable[[Tensor, nn.Module, Tensor, float], Tensor] = cross_entropy
    loss_of_logits: Callable[[Tensor, nn.Module, LogitLoss], tuple[Tensor, Tensor]] = loss_of_logits
    log_probabilities: Callable[[Tensor, nn.Module, Tensor], Tensor] = log_probabilities


FORMULAS = LogitFunctions()
