"""Training with rewards of sampled sequences, for one source x with reference y*:

    expected reward (Wu et al. 2016, section 5, equations 8 and 9)
        loss = -sum_y P(y|x) r(y, y*) - w log P(y*|x)
    minimum risk (Shen et al. 2016, equations 4 to 7)
        Q(y) = P(y|x)^a / sum over S of P(y'|x)^a       loss = sum over S of Q(y) (1 - r(y, y*))
    self-critical (Rennie et al. 2017, equations 7 to 9)
        loss = -sum_y P(y|x) (r(y, y*) - r(y_greedy, y*))

The sums over all sequences are estimated by samples y_i: the gradient of the expected reward is the
mean of (r(y_i) - b_i) grad log P(y_i|x) for any baseline b_i that does not depend on y_i (Williams
1992). Wu et al. subtract the mean reward of all m samples, which shrinks the gradient by the factor
(m - 1) / m. Here b_i is the mean of the other m - 1 samples, so the estimate has no bias.

Losses are sums over sentences, not over words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from regard.data.batch import PairBatch
from regard.models.contracts import Measure
from regard.models.seq2seq import Seq2SeqOutput
from regard.shapes import Bool, Float, Int, Tensor
from regard.training.objectives.objective import Loss, NextToken
from regard.training.schedule import Progress


@dataclass(frozen=True)
class Samples:
    """Sampled sequences of a batch, all those of a sentence one after the other."""

    batch: PairBatch
    """The samples as targets. Sources are encoded once for all samples of a sentence."""
    sentences: Int[Tensor, "sample"]
    """Number of the sentence of each sample."""
    rewards: Float[Tensor, "sample"]
    baselines: Float[Tensor, "sample"] | None = None
    """Reward of the greedy output for the sentence of each sample."""
    share_distinct: float = 1.0
    """Share of the samples that differ from earlier samples of their sentence."""
    draws: Float[Tensor, "sample"] | None = None
    """Number of times that each sequence of a set was drawn, 0 for a reference that was not. None:
    each sample was drawn once."""

    def __post_init__(self) -> None:
        """ValueError unless there is one sentence, reward, baseline and number of draws for each
        sample."""
        shape = (len(self.batch.mask),)
        for name in ("sentences", "rewards", "baselines", "draws"):
            numbers = getattr(self, name)
            if numbers is not None and numbers.shape != shape:
                raise ValueError(
                    f"{name}: expected one number for each of {shape[0]} samples, got shape "
                    f"{tuple(numbers.shape)}"
                )


Sample = Callable[[nn.Module, PairBatch, torch.Generator], Samples]
"""Function from a model and a batch to samples with rewards."""


@runtime_checkable
class RewardLoss(Protocol):
    """Function from log P(y|x) of samples, with gradients, to a loss, summed over sentences."""

    def __call__(
        self, log_probabilities: Float[Tensor, "sample"], samples: Samples
    ) -> Float[Tensor, ""]: ...


@dataclass(frozen=True)
class ExpectedReward:
    """Expected reward, from at least two samples a sentence."""

    def __call__(
        self, log_probabilities: Float[Tensor, "sample"], samples: Samples
    ) -> Float[Tensor, ""]:
        """Return the loss. ValueError for a sentence with one sample."""
        # Wu et al. 2016, eq. 8 if objective is expected_reward: O_RL = sum_i sum_Y P(Y) r(Y, Y*_i)
        return _policy_loss(log_probabilities, samples, _mean_of_others(samples))


@dataclass(frozen=True)
class SelfCritical:
    """Expected reward above that of the greedy output."""

    def __call__(
        self, log_probabilities: Float[Tensor, "sample"], samples: Samples
    ) -> Float[Tensor, ""]:
        """Return the loss. ValueError without the rewards of greedy outputs."""
        if samples.baselines is None:
            raise ValueError("samples have no baselines: expected rewards of greedy outputs")
        # Rennie et al. 2017, eq. 7-9 if objective is self_critical:
        #     gradient (r(w^s) - r(w_greedy)) grad log p(w^s)
        return _policy_loss(log_probabilities, samples, samples.baselines)


@dataclass(frozen=True)
class MinimumRisk:
    """Expected risk, 1 minus the reward, over a set of distinct samples and the reference."""

    sharpness: float = 0.005
    """Exponent a of the probabilities: with a small one Q is nearly even."""

    def __call__(
        self, log_probabilities: Float[Tensor, "sample"], samples: Samples
    ) -> Float[Tensor, ""]:
        """Return the expected risk, summed over sentences."""
        # Shen et al. 2016, eq. 4-7 if objective is minimum_risk: Q(y) = P(y)^a / sum_y' P(y')^a
        weights = _softmax_of_sentences(self.sharpness * log_probabilities, samples.sentences)
        # Shen et al. 2016, eq. 4-7 if objective is minimum_risk: R = sum_y Q(y) Delta(y, y*)
        return (weights * (1 - samples.rewards)).sum()


@dataclass(frozen=True)
class RewardObjective:
    """Loss of rewarded samples, plus the weighted cross entropy of the references.

    Penalties of the model are those of the pass through the references, or without that pass those
    of the pass through the samples, as a mean over the samples of a sentence."""

    sample: Sample
    loss: RewardLoss
    likelihood: NextToken = field(default_factory=NextToken)
    likelihood_weight: float = 0.0

    def _log_probabilities(
        self, output: Seq2SeqOutput, mask: Bool[Tensor, "batch target"]
    ) -> Float[Tensor, "batch"]:
        """Return the log probability of each target sequence, with gradients. The mask is that of
        the batch. ValueError for a model that copies."""
        if output.copying is not None:
            raise ValueError(
                "sequences need one distribution over the vocabulary, got copied words"
            )
        words = self.likelihood.loss.functions.log_probabilities(
            output.features, output.projection, output.targets
        )
        return words.new_zeros(len(mask)).index_add(0, mask.nonzero()[:, 0], words)

    def count(self, batch: PairBatch) -> int:
        """Return the number of sentences."""
        return batch.mask.size(0)

    def size(self, batch: PairBatch) -> int:
        """Return the number of target tokens of the references."""
        return int(batch.mask.sum())

    def __call__(
        self, model: nn.Module, batch: PairBatch, progress: Progress, generator: torch.Generator
    ) -> Loss:
        """Return the loss of a batch, summed over its sentences, with the measures of its
        samples."""
        samples = self.sample(model, batch, generator)
        output: Seq2SeqOutput = model(samples.batch)
        logs = self._log_probabilities(output, samples.batch.mask)
        share = self.count(batch) / len(samples.rewards)
        penalties = tuple(
            penalty if penalty.is_mean else replace(penalty, value=share * penalty.value)
            for penalty in output.penalties
        )
        loss = Loss(self.loss(logs, samples), penalties, output.measures)
        if self.likelihood_weight:
            likelihood = self.likelihood(model, batch, progress, generator)
            # Wu et al. 2016, eq. 9 if objective is expected_reward: O_mixed = alpha O_ML + O_RL
            total = loss.sum + self.likelihood_weight * likelihood.sum
            loss = Loss(total, likelihood.penalties, likelihood.measures)
        return replace(loss, measures=(*loss.measures, *_measures(samples)))


def _policy_loss(
    log_probabilities: Float[Tensor, "sample"],
    samples: Samples,
    baselines: Float[Tensor, "sample"],
) -> Float[Tensor, ""]:
    """Return minus the mean of (r - b) log P over the samples of each sentence, summed over
    sentences."""
    advantages = samples.rewards - baselines
    return -(advantages * log_probabilities / _counts(samples)).sum()


def _counts(samples: Samples) -> Float[Tensor, "sample"]:
    """Return the number of samples of the sentence of each sample."""
    return _sums(torch.ones_like(samples.rewards), samples.sentences)


def _sums(
    values: Float[Tensor, "sample"], sentences: Int[Tensor, "sample"]
) -> Float[Tensor, "sample"]:
    """Return for each sample the sum of the values of its sentence."""
    sums = values.new_zeros(int(sentences.max()) + 1).index_add(0, sentences, values)
    return sums[sentences]


def _mean_of_others(samples: Samples) -> Float[Tensor, "sample"]:
    """Return the mean reward of the other samples of the sentence of each sample."""
    counts = _counts(samples)
    if bool((counts < 2).any()):
        raise ValueError("a sentence has one sample: expected at least two, for their baselines")
    return (_sums(samples.rewards, samples.sentences) - samples.rewards) / (counts - 1)


def _softmax_of_sentences(
    logs: Float[Tensor, "sample"], sentences: Int[Tensor, "sample"]
) -> Float[Tensor, "sample"]:
    """Return the softmax over the samples of each sentence."""
    highest = logs.detach().new_full((int(sentences.max()) + 1,), -torch.inf)
    highest = highest.scatter_reduce(0, sentences, logs.detach(), "amax")
    powers = (logs - highest[sentences]).exp()
    return powers / _sums(powers, sentences)


def _measures(samples: Samples) -> tuple[Measure, ...]:
    distinct = samples.rewards.new_tensor(samples.share_distinct)
    reward = samples.rewards.mean()
    if samples.draws is not None:
        reward = (samples.draws * samples.rewards).sum() / samples.draws.sum()
    measures = Measure("reward", reward), Measure("distinct", distinct)
    if samples.baselines is None:
        return measures
    return (*measures, Measure("baseline", samples.baselines.mean()))
