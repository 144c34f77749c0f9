"""Objectives of rewards against the exact expectation over all sequences of a tiny model."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.compiled.losses import linear_log_probabilities as module
from regard.compiled.losses.linear_log_probabilities import log_probabilities
from regard.data.batch import pair_batch
from regard.models.contracts import Penalty
from regard.models.seq2seq import Seq2SeqOutput
from regard.training.objectives.objective import NextToken
from regard.training.objectives.reward import (
    ExpectedReward,
    MinimumRisk,
    RewardObjective,
    Samples,
    SelfCritical,
)
from regard.training.schedule import Progress

FIRST, SOURCE, END = Progress(1, 1), [4, 5, 2], 2
SEQUENCES = [(END,), *((first, second) for first in (0, 1) for second in (0, 1, END))]
"""All sequences of at most two tokens over 0, 1 and END: their probabilities sum to one."""
REWARDS = {sequence: 0.1 + 0.17 * place**1.5 for place, sequence in enumerate(SEQUENCES)}
REFERENCE = (1, END)


class Policy(nn.Module):
    """Recurrent model over three tokens, in float64."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(7, 5)
        self.cell = nn.GRU(5, 5, batch_first=True)
        self.projection = nn.Linear(5, 3)
        self.double()

    def forward(self, batch, forced=None):
        start = self.embedding(batch.source.ids).sum(dim=1)
        features, _ = self.cell(self.embedding(batch.inputs), start[None].contiguous())
        words = features[batch.mask], batch.outputs[batch.mask]
        return Seq2SeqOutput(*words, self.projection)


def drawn(*sentences, baseline=None, rewards=REWARDS):
    """A sampler that returns these sequences for each sentence."""

    def sample(model, batch, generator):
        sequences = [sequence for sentence in sentences for sequence in sentence]
        numbers = [number for number, sentence in enumerate(sentences) for _ in sentence]
        values = torch.tensor([rewards[sequence] for sequence in sequences]).double()
        samples = pair_batch([SOURCE] * len(sequences), sequences)
        baselines = None if baseline is None else torch.full_like(values, baseline)
        return Samples(samples, torch.tensor(numbers), values, baselines)

    return sample


def reference_batch(size=1):
    return pair_batch([SOURCE] * size, [REFERENCE] * size)


def gradient(model, value):
    return torch.cat([each.flatten() for each in torch.autograd.grad(value, [*model.parameters()])])


def loss_of(objective, model, size=1):
    return objective(model, reference_batch(size), FIRST, torch.Generator()).sum


def probabilities(model):
    """Probability of every sequence, from the logits of each step."""
    output = []
    for sequence in SEQUENCES:
        logs = model(pair_batch([SOURCE], [sequence])).logits.log_softmax(dim=1)
        output.append(logs[range(len(sequence)), list(sequence)].sum().exp())
    return torch.stack(output)


@pytest.fixture(scope="module")
def policy():
    return Policy()


@pytest.fixture(scope="module")
def exact(policy):
    """Gradient of the exact expected reward."""
    values = torch.tensor(list(REWARDS.values())).double()
    chances = probabilities(policy)
    assert float(chances.sum().detach()) == pytest.approx(1)
    return gradient(policy, (chances * values).sum())


def test_the_expected_estimate_is_the_exact_gradient_of_the_expected_reward(policy, exact):
    """Over all pairs of samples, by their probabilities."""
    chances, total = probabilities(policy).tolist(), 0
    for first, second in product(range(len(SEQUENCES)), repeat=2):
        pair = (SEQUENCES[first], SEQUENCES[second])
        objective = RewardObjective(drawn(pair), ExpectedReward())
        total += chances[first] * chances[second] * gradient(policy, loss_of(objective, policy))
    torch.testing.assert_close(-total, exact, rtol=1e-10, atol=1e-12)


def test_the_expected_estimate_of_self_critical_training_is_exact(policy, exact):
    total = 0
    for chance, sequence in zip(probabilities(policy).tolist(), SEQUENCES, strict=True):
        objective = RewardObjective(drawn([sequence], baseline=0.37), SelfCritical())
        total += chance * gradient(policy, loss_of(objective, policy))
    torch.testing.assert_close(-total, exact, rtol=1e-10, atol=1e-12)


def test_the_risk_over_all_sequences_is_exact(policy, exact):
    loss = loss_of(RewardObjective(drawn(SEQUENCES), MinimumRisk(1.0)), policy)
    expected = sum(
        chance * (1 - REWARDS[sequence])
        for chance, sequence in zip(probabilities(policy).tolist(), SEQUENCES, strict=True)
    )
    assert float(loss) == pytest.approx(expected)
    torch.testing.assert_close(-gradient(policy, loss), exact, rtol=1e-10, atol=1e-12)


def test_the_risk_by_hand(policy):
    """Two sets of samples: Q is a softmax over each."""
    sets, sharpness = (SEQUENCES[:3], SEQUENCES[2:4]), 0.4
    logs = dict(zip(SEQUENCES, probabilities(policy).log().tolist(), strict=True))
    expected = 0.0
    for each in sets:
        powers = torch.tensor([logs[sequence] * sharpness for sequence in each]).exp()
        risks = torch.tensor([1 - REWARDS[sequence] for sequence in each])
        expected += float((powers / powers.sum() * risks).sum())
    loss = loss_of(RewardObjective(drawn(*sets), MinimumRisk(sharpness)), policy, 2)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", [ExpectedReward(), SelfCritical(), MinimumRisk(0.5)], ids=repr)
def test_a_constant_reward_has_no_gradient(policy, loss):
    sample = drawn(SEQUENCES[:3], baseline=0.5, rewards=dict.fromkeys(SEQUENCES, 0.5))
    value = loss_of(RewardObjective(sample, loss), policy)
    assert gradient(policy, value).abs().max() < 1e-12


def test_the_likelihood_is_added_with_its_weight(policy):
    sample = drawn(SEQUENCES[:3], baseline=0.2)
    likelihood = NextToken()(policy, reference_batch(), FIRST, torch.Generator()).sum
    for loss in (ExpectedReward(), SelfCritical(), MinimumRisk()):
        pure, mixed = (
            loss_of(RewardObjective(sample, loss, NextToken(), weight), policy)
            for weight in (0.0, 0.3)
        )
        torch.testing.assert_close(mixed - pure, 0.3 * likelihood)


def test_measures_and_counts():
    model, batch = Policy(), reference_batch(2)
    objective = RewardObjective(drawn(SEQUENCES[:2], SEQUENCES[2:6], baseline=0.3), SelfCritical())
    assert (objective.count(batch), objective.size(batch)) == (2, 4)
    loss = objective(model, batch, FIRST, torch.Generator())
    measures = {measure.name: float(measure.value) for measure in loss.measures}
    rewards = torch.tensor([REWARDS[sequence] for sequence in SEQUENCES[:6]])
    assert measures == pytest.approx(
        {"reward": float(rewards.mean()), "distinct": 1.0, "baseline": 0.3}
    )


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_penalties_are_those_of_a_sentence_however_many_samples_it_has(policy, weight):
    class Penalised(nn.Module):
        def forward(self, batch, forced=None):
            output = policy(batch, forced)
            size, balance = torch.tensor(float(len(batch.mask))), torch.tensor(0.7)
            return replace(
                output, penalties=(Penalty("size", size), Penalty("balance", balance, is_mean=True))
            )

    sample = drawn(SEQUENCES[:3], SEQUENCES[2:7])
    objective = RewardObjective(sample, ExpectedReward(), NextToken(), weight)
    loss = objective(Penalised(), reference_batch(2), FIRST, torch.Generator())
    assert [float(penalty.value) for penalty in loss.penalties] == pytest.approx([2, 0.7])


def test_baselines_are_required():
    with pytest.raises(ValueError, match="one sample"):
        loss_of(RewardObjective(drawn(SEQUENCES[:1]), ExpectedReward()), Policy())
    with pytest.raises(ValueError, match="no baselines"):
        loss_of(RewardObjective(drawn(SEQUENCES[:1]), SelfCritical()), Policy())


@pytest.mark.parametrize("num_logits", [1, 1 << 20])
def test_log_probabilities_of_words_and_their_gradients_are_those_of_all_logits(
    monkeypatch, num_logits
):
    monkeypatch.setattr(module, "LOGITS_AT_A_TIME", num_logits)
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(131, 7, generator=generator, dtype=torch.double, requires_grad=True)
    projection = nn.Linear(7, 11).double()
    targets, scale = torch.arange(131) % 11, torch.linspace(-1, 2, 131, dtype=torch.double)
    inputs = (features, projection.weight, projection.bias)
    values = log_probabilities(features, projection, targets)
    expected = -F.cross_entropy(projection(features), targets, reduction="none")
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(
        torch.autograd.grad((scale * values).sum(), inputs),
        torch.autograd.grad((scale * expected).sum(), inputs),
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["sentences", "rewards", "baselines", "draws"])
def test_samples_of_unequal_numbers(name):
    numbers = {"sentences": torch.tensor([0, 1]), "rewards": torch.ones(2), "baselines": None}
    with pytest.raises(ValueError, match=f"^{name}: expected one number for each of 2 samples"):
        Samples(reference_batch(2), **{**numbers, name: torch.ones(1)})
