"""Cross entropy with label smoothing, and divergences between two distributions, which compare or
distil models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

from regard.data.batch import PairBatch
from regard.errors import UserError
from regard.models.seq2seq import Seq2SeqOutput
from regard.names import LossUnit
from regard.shapes import Float, Int, Tensor
from regard.training.losses.logits import FORMULAS, LogitFunctions
from regard.training.losses.pointer_loss import pointer_loss


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy with label smoothing e (Szegedy et al. 2016, section 7):
    -(1 - e) log p(target) - e / |V| sum over v of log p(v).

    The loss is a sum and the divisor is separate, so that a large batch can be processed in parts
    and still have one mean.
    """

    label_smoothing: float = 0.0
    per: LossUnit = "word"
    """Unit that the loss is averaged over. The loss of a sentence is the sum over its words."""
    functions: LogitFunctions = field(default=FORMULAS, repr=False)
    """Functions of logits, by their formulas or accelerated. They change no setting, so a resumed
    run and other processes, which compare settings as text, may have others."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"label_smoothing is {self.label_smoothing}: expected 0 to below 1")

    def __call__(self, output: Seq2SeqOutput) -> Float[Tensor, ""]:
        """Return the sum over words, in nats, in float32 or float64."""
        projection = output.projection
        if output.copying is not None:
            return pointer_loss(
                projection(output.features), output.copying, output.targets, self.label_smoothing
            )
        return self.functions.cross_entropy(
            output.features, projection, output.targets, self.label_smoothing
        )

    def count(self, batch: PairBatch) -> int:
        """Return the divisor of a batch's sum: its number of words or of sentences."""
        return int(batch.mask.sum()) if self.per == "word" else batch.mask.size(0)


def smoothed_entropy(
    logs: Float[Tensor, "word vocabulary"],
    targets: Int[Tensor, "word"],
    smoothing: float,
    weights: Float[Tensor, "vocabulary"] | None = None,
) -> Float[Tensor, ""]:
    """Return the cross entropy of log probabilities, as in `CrossEntropy`, summed over words. With
    weights each log p(v) is multiplied by that of v, as in `torch.nn.CrossEntropyLoss`."""
    entropy = F.nll_loss(logs, targets, weights, reduction="sum")
    if not smoothing:
        return entropy
    logs = logs if weights is None else logs * weights
    return (1 - smoothing) * entropy - smoothing / logs.size(-1) * logs.sum()


def kl_divergence(
    log_p: Float[Tensor, "*batch word"], log_q: Float[Tensor, "*batch word"]
) -> Float[Tensor, "*batch"]:
    """Return the Kullback-Leibler divergence (1951), sum_v p_v (log p_v - log q_v), in nats. It is
    at least 0, and infinite if q is 0 for a word with p above 0. Words with p = 0 add nothing."""
    return _expected(log_p, log_p - log_q)


def jensen_shannon_divergence(
    log_p: Float[Tensor, "*batch word"], log_q: Float[Tensor, "*batch word"]
) -> Float[Tensor, "*batch"]:
    """Return the Jensen-Shannon divergence (Lin 1991), in nats: the mean divergence of p and q from
    (p + q) / 2. It is symmetric, 0 for equal distributions, and log 2 for distributions without a
    common word."""
    either = (log_p > -torch.inf) | (log_q > -torch.inf)  # words impossible in both: no gradient
    log_middle = torch.logaddexp(*(torch.where(either, log, 0) for log in (log_p, log_q)))
    log_middle = log_middle - math.log(2)
    to_middle = kl_divergence(log_p, log_middle), kl_divergence(log_q, log_middle)
    return (to_middle[0] + to_middle[1]) / 2


def _expected(
    log_p: Float[Tensor, "*batch word"], values: Float[Tensor, "*batch word"]
) -> Float[Tensor, "*batch"]:
    """Return the expectation of the values under p. Values of words with p = 0 are replaced by 0
    before the product, in the backward pass too, because they may be infinite or NaN."""
    possible = log_p > -torch.inf
    return (log_p.exp() * torch.where(possible, values, 0)).sum(dim=-1)
