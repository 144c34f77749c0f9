"""Periods, and numbers that make no sense."""

import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.training.optimiser import Optimiser
from regard.training.schedule import Progress
from regard.training.settings import Period, TrainingSettings
from tests.training.fakes import TinyBatches


def test_periods_end_at_their_number():
    updates, epochs = Period(3, "update"), Period(2, "epoch")
    assert [n for n in range(1, 11) if updates.ends(Progress(n, 11))] == [3, 6, 9]
    assert epochs.ends(Progress(14, 99, epoch=2, ends_epoch=True))
    assert not epochs.ends(Progress(13, 99, epoch=2))
    assert not epochs.ends(Progress(21, 99, epoch=3, ends_epoch=True))


def test_epochs_round_up_to_whole_updates():
    assert Period(5).updates(TinyBatches(7), accumulate=3) == 5
    assert Period(5, "epoch").updates(TinyBatches(7), accumulate=1) == 35
    assert Period(5, "epoch").updates(TinyBatches(7), accumulate=3) == 15


def test_optimisers_have_their_settings():
    """Adam's own numbers; and without a gradient a weight loses what decay takes of it."""
    model = nn.Linear(5, 3).double()
    model.bias.requires_grad_(False)
    optimiser = Optimiser(0.1, weight_decay=0.3, betas=(0.7, 0.95), epsilon=1e-5)
    adam = optimiser.build(model)
    (group,) = adam.param_groups
    assert (group["betas"], group["eps"]) == ((0.7, 0.95), 1e-5)
    assert group["params"] == [model.weight]
    before = model.weight.detach().clone()
    model.weight.grad = torch.zeros_like(before)
    optimiser.step(adam, Progress(1, 9))
    torch.testing.assert_close(model.weight.detach(), before * (1 - 0.1 * 0.3))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Period(0), "0 updates"),
        (lambda: Optimiser(learning_rate=0.0), "learning_rate"),
        (lambda: Optimiser(clip=-1.0), "clip"),
        (lambda: Optimiser(betas=(0.9, 1.0)), "betas"),
        (lambda: Optimiser(epsilon=0.0), "epsilon"),
        (lambda: TrainingSettings(accumulate=0), "accumulate"),
        (lambda: TrainingSettings(patience=0), "patience"),
        (lambda: TrainingSettings(average=1), "average"),
        (lambda: TrainingSettings(seed=-1), "seed"),
    ],
)
def test_invalid_numbers_are_rejected_by_name(make, named):
    with pytest.raises(UserError, match=named):
        make()
