"""What is minimised: cross entropy with smoothed labels; and how far apart two distributions are,
for those who compare models or teach one by another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import PairBatch
from regard.errors import UserError
from regard.fast_path import is_exactly
from regard.linear import Linear
from regard.models.seq2seq import Seq2SeqOutput
from regard.names import LossUnit
from regard.precise import at_least_float32
from regard.shapes import Float, Int, Tensor
from regard.training.linear_cross_entropy import linear_cross_entropy


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy against labels that give a share of the probability to every word alike
    (Szegedy et al. 2016, section 7): -(1 - e) log p(target) - e / |V| sum over v of log p(v).

    It comes as a sum, with what to divide it by apart, so that a large batch can be gone through in
    parts and still have one mean.
    """

    label_smoothing: float = 0.0
    per: LossUnit = "word"
    """Divide by all words, or by sentences: then a sentence's loss is the sum over its words."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"label_smoothing is {self.label_smoothing}: expected 0 to below 1")

    def __call__(self, output: Seq2SeqOutput) -> Float[Tensor, ""]:
        """The sum over words, in nats; at least in float32."""
        projection = output.projection
        if not is_exactly(projection, Linear, nn.Linear):
            return self._of_logits(projection(output.features), output.targets)
        return linear_cross_entropy(
            output.features,
            projection.weight,
            projection.bias,
            output.targets,
            self.label_smoothing,
        )

    def _of_logits(
        self, logits: Float[Tensor, "word vocabulary"], targets: Int[Tensor, "word"]
    ) -> Float[Tensor, ""]:
        precise = at_least_float32(logits)
        smoothing = self.label_smoothing
        return F.cross_entropy(precise, targets, label_smoothing=smoothing, reduction="sum")

    def count(self, batch: PairBatch) -> int:
        """What a batch's sum is divided by: its words or its sentences."""
        return int(batch.mask.sum()) if self.per == "word" else batch.mask.size(0)


def kl_divergence(
    log_p: Float[Tensor, "*batch word"], log_q: Float[Tensor, "*batch word"]
) -> Float[Tensor, "*batch"]:
    """sum_v p_v (log p_v - log q_v), in nats, of distributions given by their natural logarithms
    (Kullback and Leibler 1951): at least 0, and infinite where q rules out what p does not.

    A word of which p is 0 adds nothing, whatever q thinks of it."""
    return _expected(log_p, log_p - log_q)


def jensen_shannon_divergence(
    log_p: Float[Tensor, "*batch word"], log_q: Float[Tensor, "*batch word"]
) -> Float[Tensor, "*batch"]:
    """The mean divergence of p and q from the distribution midway between them, in nats (Lin 1991):
    the same both ways, 0 for equal distributions and log 2 for those that share no word."""
    either = (log_p > -torch.inf) | (log_q > -torch.inf)  # where neither is, it has no gradient
    log_middle = torch.logaddexp(*(torch.where(either, log, 0) for log in (log_p, log_q)))
    log_middle = log_middle - math.log(2)
    to_middle = kl_divergence(log_p, log_middle), kl_divergence(log_q, log_middle)
    return (to_middle[0] + to_middle[1]) / 2


def _expected(
    log_p: Float[Tensor, "*batch word"], values: Float[Tensor, "*batch word"]
) -> Float[Tensor, "*batch"]:
    """The mean of the values under p. Those of impossible words are left out before the product, on
    the way back too: they may be infinite, or none."""
    possible = log_p > -torch.inf
    return (log_p.exp() * torch.where(possible, values, 0)).sum(dim=-1)
