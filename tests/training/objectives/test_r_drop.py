"""R-Drop against loops over words, and against numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.data.batch import ClassificationBatch, Numbers
from regard.models.contracts import HeadOutput, Measure, Penalty
from regard.training.loop import train
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.objective import ClassObjective, NextToken
from regard.training.objectives.r_drop import NAME, RDrop, two_pass_terms
from regard.training.objectives.teacher_forcing import TeacherForcing
from regard.training.schedule import Progress
from regard.training.settings import Period, TrainingSettings
from tests.training.fakes import TinyBatches, Watcher, tiny_model

FIRST = Progress(1, 10)
WEIGHT, SMOOTHING = 1.7, 0.1


def judge(logits, targets, smoothing=SMOOTHING, weight=WEIGHT):
    """Equation 4 of Liang et al. (2021), halved, as loops in float64."""
    entropy = divergence = 0.0
    for word, target in enumerate(targets.tolist()):
        p, q = (logits[number, word].double().softmax(0).tolist() for number in (0, 1))
        for probabilities in (p, q):
            entropy -= (1 - smoothing) * math.log(probabilities[target]) / 2
            entropy -= smoothing / len(p) * sum(map(math.log, probabilities)) / 2
        to_q = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        to_p = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
        divergence += weight * (to_q + to_p) / 2
    return entropy, divergence


def test_the_divergence_by_hand():
    """The divergence of (1/2, 1/2) and (1/4, 3/4) is 1/8 log 3."""
    logits = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]]).log()
    entropy, divergence = two_pass_terms(logits, torch.tensor([0]), 0.0, 1.0).tolist()
    assert entropy == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert divergence == pytest.approx(math.log(3) / 8)


def test_words_are_two_passes_with_other_dropout():
    model, (batch, *_) = tiny_model(dropout=0.4, penalty=0.5, measure=1.0), TinyBatches(3).epoch(1)
    objective = RDrop(NextToken(CrossEntropy(SMOOTHING, "sentence")), WEIGHT)
    torch.manual_seed(5)
    loss = objective(model, batch, FIRST, torch.Generator())
    torch.manual_seed(5)
    passes = [model(batch), model(batch)]
    logits = torch.stack([output.logits for output in passes])
    entropy, divergence = judge(logits, passes[0].targets)
    assert float(loss.sum) == pytest.approx(entropy, rel=1e-5)
    assert [each.name for each in loss.penalties] == ["size", NAME]
    assert float(loss.penalties[1].value) == pytest.approx(divergence, rel=1e-5)
    assert float(loss.penalties[0].value) == pytest.approx(float(passes[0].penalties[0].value))
    assert loss.measures == (Measure("norm", passes[0].measures[0].value),)
    assert objective.count(batch) == len(batch.mask)
    assert objective.size(batch) == int(batch.mask.sum())

    total = (loss.sum + loss.penalties[1].value).item()
    own = torch.autograd.grad(loss.sum + loss.penalties[1].value, tuple(model.parameters()))
    terms = two_pass_terms(logits, passes[0].targets, SMOOTHING, WEIGHT)
    assert total == pytest.approx(terms.sum().item(), rel=1e-5)
    torch.testing.assert_close(own, torch.autograd.grad(terms.sum(), tuple(model.parameters())))


class Doubled(nn.Linear):
    """Projection with logits of its own."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


def test_other_projections_are_called():
    model, (batch, *_) = tiny_model(dropout=0.4), TinyBatches(3).epoch(1)
    model.output = Doubled(7, 13)
    torch.manual_seed(5)
    loss = RDrop(NextToken(), WEIGHT)(model, batch, FIRST, torch.Generator())
    torch.manual_seed(5)
    logits = torch.stack([model(batch).logits, model(batch).logits])
    entropy, divergence = judge(logits, batch.outputs[batch.mask], 0.0)
    assert float(loss.sum) == pytest.approx(entropy, rel=1e-5)
    assert float(loss.penalties[0].value) == pytest.approx(divergence, rel=1e-5)


def test_without_dropout_the_loss_is_that_of_one_pass():
    model, (batch, *_) = tiny_model(), TinyBatches(3).epoch(1)
    loss = RDrop(NextToken(), 5.0)(model, batch, FIRST, torch.Generator())
    single = NextToken()(model, batch, FIRST, torch.Generator())
    torch.testing.assert_close(loss.sum, single.sum)
    assert float(loss.penalties[0].value) == 0


class DroppingHead(nn.Module):
    """Logits with dropout."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.arange(15.0).view(3, 5) / 4)

    def forward(self, source):
        penalty = Penalty("balance", self.logits.sum(), is_mean=True)
        return HeadOutput(nn.functional.dropout(self.logits, 0.3), (), (penalty,))


def test_labels_are_two_passes():
    model, mask = DroppingHead(), torch.ones(3, 1, dtype=torch.bool)
    batch = ClassificationBatch(Numbers(torch.zeros(3, 1, 1), mask), torch.tensor([0, 4, 2]))
    torch.manual_seed(5)
    loss = RDrop(ClassObjective(SMOOTHING), WEIGHT)(model, batch, FIRST, torch.Generator())
    torch.manual_seed(5)
    logits = torch.stack([model(batch.source).predictions for _ in range(2)])
    entropy, divergence = judge(logits, batch.targets)
    assert float(loss.sum) == pytest.approx(entropy, rel=1e-5)
    assert [each.name for each in loss.penalties] == ["balance", NAME]
    assert [each.is_mean for each in loss.penalties] == [True, False]
    assert float(loss.penalties[1].value) == pytest.approx(divergence, rel=1e-5)


def test_weights_of_labels_are_numbers_of_examples():
    """A weight of 2 counts an example twice."""
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1)).double()
    targets, weights = torch.tensor([0, 4, 0]), torch.ones(5).double()
    weights[4] = 2
    twice = two_pass_terms(logits[:, [0, 1, 1, 2]], targets[[0, 1, 1, 2]], 0.0, WEIGHT)
    weighted = two_pass_terms(logits, targets, 0.0, WEIGHT, weights)
    torch.testing.assert_close(weighted, twice)
    smooth = two_pass_terms(logits, targets, SMOOTHING, WEIGHT, weights)[0]
    judge = nn.CrossEntropyLoss(weights, reduction="sum", label_smoothing=SMOOTHING)
    torch.testing.assert_close(smooth, sum(judge(each, targets) for each in logits) / 2)


def test_a_training_logs_the_divergence_and_reduces_it():
    def logged(weight):
        model, watcher = tiny_model(dropout=0.4), Watcher()
        settings = TrainingSettings(
            length=Period(15, "epoch"),
            objective=RDrop(NextToken(), weight),
            log_every=Period(15, "epoch"),
        )
        train(model, TinyBatches(7), settings, report=watcher)
        (line,) = (each for each in watcher.lines if hasattr(each, "penalties"))
        return line.penalties[NAME] / weight

    assert logged(20.0) < 0.7 * logged(0.01)


def test_predicted_inputs_are_rejected():
    with pytest.raises(ValueError, match="true tokens alone"):
        RDrop(NextToken(teacher_forcing=TeacherForcing(0.5)), 1.0)
