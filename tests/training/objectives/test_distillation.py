"""Distillation against loops over words in float64, and against the minimum of its loss."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from regard.building.translators import build_translation
from regard.compiled.losses import linear_loss as blocks
from regard.data.batch import ClassificationBatch, Numbers, pair_batch
from regard.models.contracts import HeadOutput, Measure, Penalty
from regard.models.ensemble import Ensemble
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.distillation import DIVERGENCES, Distillation, Teachers
from regard.training.objectives.objective import ClassObjective, NextToken
from regard.training.objectives.teacher_forcing import TeacherForcing
from regard.training.schedule import Progress
from tests import configs
from tests.training.fakes import NUM_WORDS, TinyBatches, tiny_model

FIRST = Progress(1, 10)
WEIGHT, SMOOTHING = 0.7, 0.1


def teacher(seed, **settings):
    torch.manual_seed(seed)
    config = configs.recurrent(size=6, embedding=5, attention=dict(size=7), **settings)
    return build_translation(config, NUM_WORDS, NUM_WORDS).double()


@pytest.fixture(scope="module")
def teachers():
    return Teachers((teacher(1, dropout=0.5), teacher(2)), ("first", "second"))


def batch():
    return pair_batch([[4, 5, 6, 2], [7, 2]], [[8, 9, 2], [10, 11, 12, 4, 2]])


def mean_probabilities(teachers, words):
    """Probabilities of each word, from the logits of each teacher."""
    probabilities = [model(words).logits.softmax(dim=1) for model in teachers.models]
    return (sum(probabilities) / len(probabilities)).detach()


def with_temperature(probabilities, temperature):
    powers = [value ** (1 / temperature) for value in probabilities]
    return [value / sum(powers) for value in powers]


def divergence_of(name, p, q):
    """Divergence as a loop (Kullback and Leibler 1951, Lin 1991)."""
    if name == "kullback_leibler":
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return sum(divergence_of("kullback_leibler", each, middle) for each in (p, q)) / 2


def judge(name, logits, targets, probabilities, temperature, smoothing=SMOOTHING, weight=WEIGHT):
    """Loss and mean divergence, as loops over words."""
    loss = total = 0.0
    for word, target in enumerate(targets):
        q = logits[word].softmax(0).tolist()
        entropy = -(1 - smoothing) * math.log(q[target])
        entropy -= smoothing / len(q) * sum(map(math.log, q))
        soft = (with_temperature(each, temperature) for each in (probabilities[word].tolist(), q))
        divergence = divergence_of(name, *soft)
        loss += (1 - weight) * entropy + weight * temperature**2 * divergence
        total += divergence
    return loss, total / len(targets)


CASES = [*product(DIVERGENCES, (1.0, 2.5))]


@pytest.mark.parametrize(("name", "temperature"), CASES)
def test_words_are_compared_with_the_mean_of_the_teachers(teachers, monkeypatch, name, temperature):
    monkeypatch.setattr(blocks, "LOGITS_AT_A_TIME", 1)
    student, words = tiny_model(penalty=0.5, measure=1.0).double(), batch()
    likelihood = NextToken(CrossEntropy(SMOOTHING, "sentence"))
    objective = Distillation(likelihood, teachers, name, WEIGHT, temperature)
    loss = objective(student, words, FIRST, torch.Generator())
    output = student(words)
    expected, divergence = judge(
        name,
        output.logits.detach(),
        output.targets.tolist(),
        mean_probabilities(teachers, words),
        temperature,
    )
    assert loss.sum.item() == pytest.approx(expected, rel=1e-9)
    assert [each.name for each in loss.penalties] == ["size"]
    assert [each.name for each in loss.measures] == ["norm", "divergence"]
    assert float(loss.measures[1].value) == pytest.approx(divergence, rel=1e-9)
    assert (objective.count(words), objective.size(words)) == (2, 8)


@pytest.mark.parametrize(("name", "temperature"), CASES)
def test_the_gradient_is_that_of_the_loop(teachers, name, temperature):
    """By central differences of the loop, in one weight of each row."""
    student, words = tiny_model().double(), batch()
    objective = Distillation(NextToken(), teachers, name, WEIGHT, temperature)
    loss = objective(student, words, FIRST, torch.Generator()).sum
    (own,) = torch.autograd.grad(loss, student.output.bias)
    probabilities = mean_probabilities(teachers, words)
    targets = words.outputs[words.mask].tolist()

    def moved(place, step):
        with torch.no_grad():
            logits = student(words).logits
            logits[:, place] += step
        return judge(name, logits, targets, probabilities, temperature, 0.0)[0]

    steps = [(moved(place, 1e-5) - moved(place, -1e-5)) / 2e-5 for place in range(NUM_WORDS)]
    torch.testing.assert_close(own, torch.tensor(steps, dtype=torch.double), rtol=1e-6, atol=1e-8)
    assert all(weight.grad is None for model in teachers.models for weight in model.parameters())


class Free(nn.Module):
    """Labels whose logits are free parameters."""

    def __init__(self, logits, penalties=()):
        super().__init__()
        self.logits = nn.Parameter(logits.clone())
        self.penalties = penalties

    def forward(self, source):
        return HeadOutput(self.logits, (), self.penalties, (Measure("norm", self.logits.sum()),))


TARGETS = torch.tensor([0, 4, 2])


def labels():
    mask = torch.ones(3, 1, dtype=torch.bool)
    return ClassificationBatch(Numbers(torch.zeros(3, 1, 1), mask), TARGETS)


def free(seed):
    return Free(torch.randn(3, 5, generator=torch.Generator().manual_seed(seed)).double())


@pytest.mark.parametrize("name", DIVERGENCES)
def test_labels_are_compared(name):
    student = free(1)
    student.penalties = (Penalty("balance", student.logits.sum(), is_mean=True),)
    of_labels = Teachers((free(2), free(3)), ("a", "b"))
    objective = Distillation(ClassObjective(SMOOTHING), of_labels, name, WEIGHT, 2.0)
    loss = objective(student, labels(), FIRST, torch.Generator())
    mean = sum(model.logits.softmax(dim=1) for model in of_labels.models) / 2
    expected, divergence = judge(name, student.logits.detach(), TARGETS.tolist(), mean, 2.0)
    assert loss.sum.item() == pytest.approx(expected, rel=1e-9)
    assert [each.name for each in loss.penalties] == ["balance"]
    assert float(loss.measures[1].value) == pytest.approx(divergence, rel=1e-9)
    assert objective.count(labels()) == 3


def test_weights_of_labels_are_numbers_of_examples():
    """A weight of 2 counts an example twice, in the mean divergence too."""
    student, teachers = free(1), Teachers((free(2),), ("a",))
    weights = tuple(2.0 if number == int(TARGETS[1]) else 1.0 for number in range(5))
    objective = Distillation(ClassObjective(0.0, weights), teachers)
    single = Distillation(ClassObjective(), teachers)
    loss = objective(student, labels(), FIRST, torch.Generator())
    terms = []
    for target in range(3):
        picked = Free(student.logits.detach()[target : target + 1])
        teacher = Teachers((Free(teachers.models[0].logits[target : target + 1]),), ("a",))
        part = replace(single, teachers=teacher)
        batch = labels().select(torch.tensor([target]))
        terms.append(part(picked, batch, FIRST, torch.Generator()))
    factors = [weights[int(target)] for target in TARGETS]
    sums = sum(factor * term.sum for factor, term in zip(factors, terms, strict=True))
    assert objective.count(labels()) == sum(factors)
    torch.testing.assert_close(loss.sum, sums)
    divergences = [float(term.measures[-1].value) for term in terms]
    mean = np.dot(factors, divergences) / sum(factors)
    assert float(loss.measures[-1].value) == pytest.approx(mean)


def test_the_minimum_is_the_mixture_of_teacher_and_target():
    """-sum_v t_v log q_v is least for q = t, with t = (1 - a) onehot + a p."""
    of_labels = Teachers((free(2),), ("a",))
    mixture = WEIGHT * of_labels.models[0].logits.softmax(dim=1)
    mixture = mixture + (1 - WEIGHT) * torch.eye(5).double()[TARGETS]
    objective = Distillation(ClassObjective(), of_labels, weight=WEIGHT)
    student = free(1)
    optimiser = torch.optim.LBFGS(student.parameters(), max_iter=200, tolerance_grad=1e-10)

    def closure():
        optimiser.zero_grad()
        loss = objective(student, labels(), FIRST, torch.Generator()).sum
        loss.backward()
        return loss

    optimiser.step(closure)
    torch.testing.assert_close(student.logits.softmax(dim=1), mixture, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "temperature"), CASES)
def test_a_student_that_equals_its_teacher_is_at_the_minimum(name, temperature):
    student = free(2)
    objective = Distillation(ClassObjective(), Teachers((free(2),), ("a",)), name, 1.0, temperature)
    loss = objective(student, labels(), FIRST, torch.Generator()).sum
    assert float(loss) == pytest.approx(0, abs=1e-12)
    (slopes,) = torch.autograd.grad(loss, student.logits)
    assert slopes.abs().max() < 1e-12


def test_the_jensen_shannon_loss_is_symmetric_and_at_most_log_2():
    def loss(first, second):
        objective = Distillation(
            ClassObjective(), Teachers((first,), ("a",)), "jensen_shannon", 1.0
        )
        return float(objective(second, labels(), FIRST, torch.Generator()).sum)

    assert loss(free(1), free(2)) == pytest.approx(loss(free(2), free(1)))
    far = [Free(torch.eye(5).double()[[place] * 3] * 800) for place in (0, 1)]
    assert loss(*far) == pytest.approx(3 * math.log(2))


def test_teachers_are_frozen_without_dropout_and_equal_their_ensemble(teachers):
    assert not any(model.training for model in teachers.models)
    assert not any(each.requires_grad for model in teachers.models for each in model.parameters())
    words = batch()
    ensemble = Ensemble(teachers.models)
    features = ensemble.decoder(words.inputs, ensemble.encode(words.source)).features
    expected = ensemble.decoder.project(features)[words.mask]
    torch.testing.assert_close(teachers.of_words(words)(slice(None)), expected.detach())


def test_the_digests_identify_the_teachers(teachers):
    assert repr(teachers) == "Teachers(digests=('first', 'second'))"


def test_bad_arguments_are_rejected(teachers):
    with pytest.raises(ValueError, match="at least one model"):
        Teachers((), ())
    with pytest.raises(ValueError, match="true tokens alone"):
        Distillation(NextToken(teacher_forcing=TeacherForcing(0.5)), teachers)
    with pytest.raises(ValueError, match="above 0 to 1"):
        Distillation(NextToken(), teachers, weight=0.0)


def test_a_training_reduces_the_divergence(teachers):
    student = tiny_model().double()
    adam = torch.optim.Adam(student.parameters(), lr=0.02)
    objective, values = Distillation(NextToken(), teachers, weight=1.0), []
    for epoch in range(1, 9):
        for words in TinyBatches(5).epoch(epoch):
            adam.zero_grad()
            loss = objective(student, words, FIRST, torch.Generator())
            (loss.sum / objective.count(words)).backward()
            adam.step()
            values.append(float(loss.measures[0].value))
    assert sum(values[-5:]) < 0.5 * sum(values[:5])
