"""Penalties on attention weights that a model adds to its loss (Xu et al. 2015).

doubly stochastic    sum over i of (1 - sum over t of weights_ti)^2                       (eq. 14)
hard                 -(R - b) sum over t of log weights_t(s_t) - e sum over t of H(weights_t)
                     R = log p(y | x, s), b = 0.9 b + 0.1 R                      (section 4.1)
hard, discounted     -sum over t of (R_t - b_t) log weights_t(s_t) - e sum over t of H(weights_t)
                     R_t = sum over u >= t of g^(u - t) log p(y_u | x, s)

A position drawn at step t has no effect on earlier tokens, so their log probabilities only add
noise to its reward. With the discount g = 1 the expected gradient is that of the whole log
probability (reward to go; Sutton et al. 2000). A smaller discount leaves out more noise, and the
effects on distant tokens too.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import PairBatch, Tokens
from regard.models.contracts import AT_SOURCE, AttentionBlock, DecoderOutput, Penalty
from regard.shapes import Bool, Float, Tensor

BASELINE_DECAY = 0.9
"""Factor of the old baseline in an update of the moving mean."""
NUM_BASELINES = 64
"""Number of baselines with a discount."""


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
        # Xu et al. 2015, eq. 14: lambda sum_i (1 - sum_t a_ti)^2
        squares = (1 - totals) ** 2
        if isinstance(batch.source, Tokens):
            squares = squares * batch.source.mask
        squares = squares.sum(dim=-1)
        return Penalty("doubly stochastic", self.weight * squares.sum())


class HardReward(nn.Module):
    """Reward of hard attention: positions drawn before a likely target become more probable.

    Without a discount, the reward of each position is the log probability of the whole target. With
    a discount it is that of the token of its step and of the later tokens, each multiplied by the
    discount once more than the token before it.

    The baseline is a moving mean of rewards that reduces the variance of the gradient. With a
    discount, each of the first steps has its own baseline, and all later steps share one. Baselines
    are the only numbers that a model stores between updates."""

    baseline: Tensor

    def __init__(self, weight: float, entropy: float, discount: float | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.entropy = entropy
        self.discount = discount
        shape = () if discount is None else (NUM_BASELINES,)
        self.register_buffer("baseline", torch.zeros(shape))

    def forward(self, output: DecoderOutput, batch: PairBatch, projection: nn.Linear) -> Penalty:
        """Return the penalty. ValueError if no positions were drawn."""
        block = _source_attention(output)
        if block.drawn is None:
            raise ValueError("attention: expected positions drawn by hard attention, got none")
        weights = block.weights[:, 0, 0].float()
        drawn = block.drawn[:, 0, 0]
        is_hard = (drawn >= 0) & batch.mask
        drawn_weights = weights.gather(2, drawn.clamp(min=0)[..., None])[..., 0]
        logs = torch.where(is_hard, drawn_weights, 1.0).clamp(min=1e-12).log()
        positive = torch.where(weights > 0, weights, 1.0)
        entropies = -(positive * positive.log()).sum(dim=-1)
        entropy = (entropies * batch.mask).sum(dim=1)
        advantages = self._advantages(_log_probabilities(output, batch, projection), is_hard)
        # Xu et al. 2015, section 4.1: -(R - b) log p(s | a) - lambda_e H(s)
        terms = -self.weight * (advantages * logs).sum(dim=1) - self.entropy * entropy
        return Penalty("hard attention", terms.sum())

    def _advantages(
        self, logs: Float[Tensor, "batch target"], is_hard: Bool[Tensor, "batch target"]
    ) -> Float[Tensor, "batch _"]:
        """Return the reward of each position minus its baseline, and update the baselines in
        training. Without a discount, all positions of a target have one reward, and the mean
        includes targets with expected contexts."""
        if self.discount is None:
            rewards = logs.sum(dim=1, keepdim=True)
            advantages = rewards - self.baseline
            means = rewards.mean()
        else:
            rewards = discounted_sums(logs, self.discount)
            steps = torch.arange(logs.size(1), device=logs.device).clamp(max=NUM_BASELINES - 1)
            advantages = (rewards - self.baseline[steps]) * is_hard
            counts = torch.zeros_like(self.baseline).index_add(0, steps, is_hard.float().sum(dim=0))
            sums = torch.zeros_like(counts).index_add(0, steps, (rewards * is_hard).sum(dim=0))
            means = torch.where(counts > 0, sums / counts, self.baseline)
        if self.training:
            # Xu et al. 2015, section 4.1: b_k = 0.9 b_{k-1} + 0.1 log p(y | s_k, a)
            self.baseline.mul_(BASELINE_DECAY).add_((1 - BASELINE_DECAY) * means)
        return advantages


def discounted_sums(
    rewards: Float[Tensor, "batch step"], discount: float
) -> Float[Tensor, "batch step"]:
    """Return the sum of the present and of all later rewards for each step; a reward k steps later
    is multiplied by the k-th power of the discount."""
    steps = torch.arange(rewards.size(1), device=rewards.device)
    distances = steps[:, None] - steps
    powers = discount ** distances.clamp(min=0).to(rewards.dtype)
    return rewards @ powers.tril()


@torch.no_grad()
def _log_probabilities(
    output: DecoderOutput, batch: PairBatch, projection: nn.Linear
) -> Float[Tensor, "batch target"]:
    """Return the log probability of every token of the targets; 0 for padding."""
    logits = projection(output.features[batch.mask]).float()
    logs = -F.cross_entropy(logits, batch.outputs[batch.mask], reduction="none")
    return logs.new_zeros(batch.mask.shape).masked_scatter(batch.mask, logs)


def _source_attention(output: DecoderOutput) -> AttentionBlock:
    blocks = [block for block in output.attention if block.kind in AT_SOURCE]
    if not blocks:
        raise ValueError("attention: expected attention to the source for a penalty, got none")
    return blocks[0]
