"""Terms that a model adds to its loss for how it looked (Xu et al. 2015).

doubly stochastic    sum over i of (1 - sum over t of weights_ti)^2                       (eq. 14)
hard                 -(R - b) sum over t of log weights_t(s_t) - e sum over t of H(weights_t)
                     R = log p(y | x, s), b = 0.9 b + 0.1 R                      (section 4.1)
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import PairBatch, Tokens
from regard.models.contracts import AT_SOURCE, AttentionBlock, DecoderOutput, Penalty
from regard.shapes import Float, Tensor

KEPT = 0.9
"""The share of the baseline that an update leaves as it is."""


@runtime_checkable
class AttentionPenalty(Protocol):
    """From what a decoder computed, with its attention, to a term: a sum over sentences."""

    def __call__(
        self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear
    ) -> Penalty: ...


class DoublyStochastic(nn.Module):
    """Every place is to be looked at about once in the whole target."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear) -> Penalty:
        del projection
        weights = _look(output).weights.float().mean(dim=(1, 2))  # "batch target source"
        taken = (weights * batch.mask[..., None]).sum(dim=1)
        missed = (1 - taken) ** 2
        if isinstance(batch.source, Tokens):
            missed = missed * batch.source.mask
        missed = missed.sum(dim=-1)
        return Penalty("doubly stochastic", self.weight * missed.sum())


class HardReward(nn.Module):
    """What draws of places are learned by: those before likely targets become likelier.

    The baseline, a moving mean of rewards that keeps the gradient's variance small, is the one
    number that a model remembers from update to update."""

    baseline: Tensor

    def __init__(self, weight: float, entropy: float) -> None:
        super().__init__()
        self.weight = weight
        self.entropy = entropy
        self.register_buffer("baseline", torch.zeros(()))

    def forward(self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear) -> Penalty:
        """ValueError where attention drew nothing."""
        block = _look(output)
        if block.drawn is None:
            raise ValueError("this penalty is for hard attention, but nothing was drawn")
        weights = block.weights[:, 0, 0].float()
        drawn = block.drawn[:, 0, 0]
        is_hard = (drawn >= 0) & batch.mask
        chosen = weights.gather(2, drawn.clamp(min=0)[..., None])[..., 0]
        logs = torch.where(is_hard, chosen, 1.0).clamp(min=1e-12).log().sum(dim=1)
        plain = torch.where(weights > 0, weights, 1.0)
        entropies = -(plain * plain.log()).sum(dim=-1)
        entropy = (entropies * batch.mask).sum(dim=1)
        reward = _log_probabilities(output, batch, projection)
        better = reward - self.baseline
        if self.training:
            self.baseline.mul_(KEPT).add_((1 - KEPT) * reward.mean())
        terms = -self.weight * better * logs - self.entropy * entropy
        return Penalty("hard attention", terms.sum())


@torch.no_grad()
def _log_probabilities(
    output: DecoderOutput, batch: PairBatch, projection: nn.Linear
) -> Float[Tensor, "batch"]:
    """Of every target, all tokens together."""
    logits = projection(output.features[batch.mask]).float()
    logs = -F.cross_entropy(logits, batch.outputs[batch.mask], reduction="none")
    sentences = batch.mask.nonzero()[:, 0]
    return logs.new_zeros(len(batch.mask)).index_add(0, sentences, logs)


def _look(output: DecoderOutput) -> AttentionBlock:
    found = [block for block in output.attention if block.kind in AT_SOURCE]
    if not found:
        raise ValueError("a penalty for looking needs attention to the source, but there is none")
    return found[0]
