"""Penalties on attention weights that a model adds to its loss (Xu et al. 2015).

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

BASELINE_DECAY = 0.9
"""Factor of the old baseline in an update of the moving mean."""


@runtime_checkable
class AttentionPenalty(Protocol):
    """Function from the output of a decoder, with attention, to a penalty: a sum over sentences."""

    def __call__(
        self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear
    ) -> Penalty: ...


class DoublyStochastic(nn.Module):
    """Doubly stochastic penalty: each source position should receive a total weight of about 1 over
    all steps of the target."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear) -> Penalty:
        del projection
        weights = _source_attention(output).weights.float().mean(dim=(1, 2))  # batch target source
        totals = (weights * batch.mask[..., None]).sum(dim=1)
        squares = (1 - totals) ** 2
        if isinstance(batch.source, Tokens):
            squares = squares * batch.source.mask
        squares = squares.sum(dim=-1)
        return Penalty("doubly stochastic", self.weight * squares.sum())


class HardReward(nn.Module):
    """Reward of hard attention: positions drawn before a likely target become more probable.

    The baseline is a moving mean of rewards that reduces the variance of the gradient. It is the
    only number that a model stores between updates."""

    baseline: Tensor

    def __init__(self, weight: float, entropy: float) -> None:
        super().__init__()
        self.weight = weight
        self.entropy = entropy
        self.register_buffer("baseline", torch.zeros(()))

    def forward(self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear) -> Penalty:
        """Return the penalty. ValueError if no positions were drawn."""
        block = _source_attention(output)
        if block.drawn is None:
            raise ValueError("attention: expected positions drawn by hard attention, got none")
        weights = block.weights[:, 0, 0].float()
        drawn = block.drawn[:, 0, 0]
        is_hard = (drawn >= 0) & batch.mask
        drawn_weights = weights.gather(2, drawn.clamp(min=0)[..., None])[..., 0]
        logs = torch.where(is_hard, drawn_weights, 1.0).clamp(min=1e-12).log().sum(dim=1)
        positive = torch.where(weights > 0, weights, 1.0)
        entropies = -(positive * positive.log()).sum(dim=-1)
        entropy = (entropies * batch.mask).sum(dim=1)
        reward = _log_probabilities(output, batch, projection)
        advantage = reward - self.baseline
        if self.training:
            self.baseline.mul_(BASELINE_DECAY).add_((1 - BASELINE_DECAY) * reward.mean())
        terms = -self.weight * advantage * logs - self.entropy * entropy
        return Penalty("hard attention", terms.sum())


@torch.no_grad()
def _log_probabilities(
    output: DecoderOutput, batch: PairBatch, projection: nn.Linear
) -> Float[Tensor, "batch"]:
    """Return the log probability of every target, summed over its tokens."""
    logits = projection(output.features[batch.mask]).float()
    logs = -F.cross_entropy(logits, batch.outputs[batch.mask], reduction="none")
    sentences = batch.mask.nonzero()[:, 0]
    return logs.new_zeros(len(batch.mask)).index_add(0, sentences, logs)


def _source_attention(output: DecoderOutput) -> AttentionBlock:
    blocks = [block for block in output.attention if block.kind in AT_SOURCE]
    if not blocks:
        raise ValueError("attention: expected attention to the source for a penalty, got none")
    return blocks[0]
