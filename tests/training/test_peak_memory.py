"""The memory of an update is estimated without a trace in the model or the random numbers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.compiled.losses import BLOCKWISE
from regard.data.batch import pair_batch
from regard.errors import UserError
from regard.pipeline import train as training
from regard.storage.weights import TRAINED
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.objective import Loss, NextToken
from regard.training.peak_memory import peak_of_update
from tests.messages import check_message, raises
from tests.small_runs import smaller
from tests.training.fakes import tiny_model

SENTENCES = [[5, 6, 7, 8, 2], [9, 10, 11, 2]] * 20
BATCH = pair_batch(SENTENCES, SENTENCES)


def rows(number):
    return BATCH.select(torch.arange(number))


def test_the_estimate_has_the_weights_and_grows_with_the_sentences():
    model = tiny_model(dropout=0.5)
    weights = TRAINED * sum(4 * weight.numel() for weight in model.parameters())
    blockwise = NextToken(CrossEntropy(functions=BLOCKWISE))
    peaks = [peak_of_update(model, blockwise, rows(n), "float32") for n in (10, 20, 40)]
    assert peaks[0] > weights
    assert peaks[2] - peaks[1] == pytest.approx(2 * (peaks[1] - peaks[0]), rel=0.01)


class InBlocks(NextToken):
    """An objective that frees the graph of each block before the next one."""

    def __call__(self, *_):
        for size in (1000, 3000, 2000):
            torch.ones(size, requires_grad=True).exp().sum().backward()
        return Loss(torch.zeros(()))


def test_a_graph_that_is_freed_does_not_count_further():
    weight = nn.Linear(1, 1, bias=False).requires_grad_(False)
    assert peak_of_update(weight, InBlocks(), rows(4), "float32") == 4 + 2 * 4 * 3000


def test_frozen_weights_need_no_moments():
    model = tiny_model()
    before = peak_of_update(model, NextToken(), rows(4), "float32")
    model.embedding.weight.requires_grad_(False)
    after = peak_of_update(model, NextToken(), rows(4), "float32")
    assert before - after >= (TRAINED - 1) * 4 * model.embedding.weight.numel()


def test_the_model_and_the_random_numbers_are_unchanged():
    model = tiny_model(dropout=0.5).eval()
    torch.manual_seed(3)
    state = torch.get_rng_state()
    peak_of_update(model, NextToken(), rows(8), "bfloat16")
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(weight.grad is None for weight in model.parameters())


class Normalised(nn.Module):
    """A model with statistics of batches."""

    def __init__(self):
        super().__init__()
        self.norm, self.model = nn.BatchNorm1d(7), tiny_model()

    def forward(self, batch, *more):
        self.norm(torch.randn(len(batch), 7))
        return self.model(batch, *more)


def test_statistics_of_batches_are_unchanged():
    model = Normalised()
    peak_of_update(model, NextToken(), rows(8), "float32")
    assert model.norm.running_mean.eq(0).all()
    assert model.norm.num_batches_tracked == 0


def test_a_training_that_may_not_fit_is_warned_of(tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr("regard.pipeline.plan.peak_of_update", peak_of_update)
    monkeypatch.setattr("regard.pipeline.plan.free_ram", lambda: 1000)
    training.train(smaller(updates=1), tmp_path / "run", begin=plans.append)
    (finding,) = [each for each in plans[0].findings if "of memory" in each.text]
    assert finding.severity == "warn"
    check_message(finding.text)
    monkeypatch.undo()
    training.train(replace(smaller(updates=1), name="b"), tmp_path / "other", begin=plans.append)
    assert not any("of memory" in each.text for each in plans[1].findings)


def test_a_training_far_beyond_the_memory_of_the_machine_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.pipeline.plan.peak_of_update", peak_of_update)
    for name in ("free_ram", "ram_limit"):
        monkeypatch.setattr(f"regard.pipeline.plan.{name}", lambda: 1000)
    experiment = smaller(updates=1)
    with raises(UserError, "--data.checks"):
        training.train(experiment, tmp_path / "run")
    data = replace(experiment.data, checks="warn")
    training.train(replace(experiment, data=data), tmp_path / "run")
