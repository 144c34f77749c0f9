"""From a batch to a loss, and the mean of many."""

from __future__ import annotations

import pytest
import torch

from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.objective import NextToken, mean_loss
from regard.training.objectives.teacher_forcing import TeacherForcing
from regard.training.schedule import Progress
from tests.training.fakes import TinyBatches, tiny_model

FIRST = Progress(1, 10)


def test_the_loss_is_the_cross_entropy_of_the_next_token():
    model, (batch, *_) = tiny_model(penalty=0.5), TinyBatches(3).epoch(1)
    objective = NextToken(CrossEntropy(0.1, "sentence"))
    loss = objective(model, batch, FIRST, torch.Generator())
    output = model(batch)
    assert loss.sum == CrossEntropy(0.1)(output)
    assert [each.name for each in loss.penalties] == ["size"]
    assert objective.count(batch) == len(batch.mask)
    assert objective.size(batch) == int(batch.mask.sum())


def test_the_generator_determines_the_forced_inputs():
    model, (batch, *_) = tiny_model(), TinyBatches(3).epoch(1)
    free = NextToken(teacher_forcing=TeacherForcing(0.5, by="token"))
    losses = [free(model, batch, FIRST, torch.Generator().manual_seed(s)).sum for s in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_the_dev_loss_is_the_mean_over_batches_without_penalties():
    model, batches = tiny_model(penalty=0.5), list(TinyBatches(3).epoch(1))
    total = sum(CrossEntropy()(model(batch)).item() for batch in batches)
    words = sum(int(batch.mask.sum()) for batch in batches)
    assert mean_loss(NextToken(), model, batches) == pytest.approx(total / words)
    with pytest.raises(ValueError, match="hold nothing"):
        mean_loss(NextToken(), model, [])
