"""Losses of classification and regression."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.data.batch import ClassificationBatch, Numbers
from regard.models.contracts import HeadOutput, Measure, Penalty
from regard.training.loop import forward_and_backward
from regard.training.objectives.objective import ClassObjective, NumberObjective, mean_loss
from regard.training.parallel.replicas import replica_of
from regard.training.schedule import Progress
from regard.training.settings import TrainingSettings

FIRST = Progress(1, 1)
PENALTY = Penalty("balance", torch.tensor(0.25), is_mean=True)
MEASURE = Measure("load", torch.tensor(1.5))
VALUES = torch.tensor([[1.0, -1.0], [0.5, 2.0], [0.0, 0.0]])


class FixedOutput(nn.Module):
    """Model with fixed outputs."""

    def __init__(self):
        super().__init__()
        self.outputs = nn.Parameter(VALUES)

    def forward(self, source):
        terms = (PENALTY,), (MEASURE,)
        return HeadOutput(self.outputs[: len(source.mask)], (), *terms)


def batch(targets):
    mask = torch.ones(len(targets), 1, dtype=torch.bool)
    return ClassificationBatch(
        Numbers(torch.zeros(len(targets), 1, 1), mask), torch.tensor(targets)
    )


def cost(objective, targets):
    loss = objective(FixedOutput(), batch(targets), Progress(1, 1), torch.Generator())
    assert (loss.penalties, loss.measures) == ((PENALTY,), (MEASURE,))
    return loss.sum.item()


def test_the_loss_of_classes_is_cross_entropy():
    probabilities = VALUES.double().softmax(dim=1)
    right = -(probabilities[0, 0].log() + probabilities[1, 0].log() + probabilities[2, 1].log())
    assert cost(ClassObjective(), [0, 0, 1]) == pytest.approx(float(right))
    smooth = 0.9 * right - 0.05 * probabilities.log().sum()
    assert cost(ClassObjective(0.1), [0, 0, 1]) == pytest.approx(float(smooth))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_of_labels_are_those_of_torch(smoothing):
    """A mean over batches too, whose divisor is the sum of the weights."""
    weights, targets = (0.25, 3.5), [0, 0, 1]
    objective = ClassObjective(smoothing, weights)
    judge = nn.CrossEntropyLoss(torch.tensor(weights), label_smoothing=smoothing)
    expected = judge(VALUES, torch.tensor(targets)).item()
    assert objective.count(batch(targets)) == 4.0
    assert objective.size(batch(targets)) == 3
    assert cost(objective, targets) / 4.0 == pytest.approx(expected)
    equal = ClassObjective(smoothing, (1.0, 1.0))
    assert cost(equal, targets) == pytest.approx(cost(ClassObjective(smoothing), targets))


def test_the_weighted_mean_is_over_all_batches_of_an_update():
    """Not the mean of the means of batches."""
    weights, model = (0.25, 3.5), FixedOutput()
    settings = TrainingSettings(objective=ClassObjective(0.1, weights))
    batches = [batch([0, 0, 1]), batch([1]), batch([0, 1])]
    losses = forward_and_backward(replica_of(model, settings.objective), settings, FIRST, batches)
    logits = FixedOutput().outputs
    rows, targets = torch.tensor([0, 1, 2, 0, 0, 1]), torch.tensor([0, 0, 1, 1, 0, 1])
    judge = nn.CrossEntropyLoss(torch.tensor(weights), label_smoothing=0.1)
    mean = judge(logits[rows], targets)
    mean.backward()
    assert float(losses.sums[0]) / losses.count == pytest.approx(float(mean.detach()))
    torch.testing.assert_close(model.outputs.grad, logits.grad)


def test_the_loss_of_numbers_is_squared_error():
    assert cost(NumberObjective(), [[1.0, 1.0], [0.5, 2.0]]) == pytest.approx(4 / 2)


def test_the_mean_is_over_examples():
    batches = [batch([[1.0, 1.0], [0.5, 2.0]]), batch([[1.0, -1.0]])]
    assert NumberObjective().count(batches[0]) == NumberObjective().size(batches[0]) == 2
    assert mean_loss(NumberObjective(), FixedOutput(), batches) == pytest.approx(2 / 3)
