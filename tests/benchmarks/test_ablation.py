"""Gains of hand-written parts: the intervals, and that each part is disabled."""

from contextlib import contextmanager
from math import comb

import pytest
import torch

from regard import kernels
from regard.building.translators import build_translation
from regard.config import TrainingConfig
from regard.data.batch import pair_batch
from regard.numerics import joined_gradients
from regard.tasks.training.objectives import objective_of
from regard.training.settings import TrainingSettings
from tests import configs
from tests.benchmarks.scripts import script

ablation = script("ablation")


@pytest.mark.parametrize("count", [6, 7, 15, 40])
def test_the_interval_is_the_smallest_one_with_its_probability(count):
    low, high = ablation.interval(list(reversed(range(count))))
    tails = [sum(comb(count, i) for i in range(low + more)) / 2**count for more in (1, 2)]
    assert high == count - 1 - low
    assert tails[0] <= 0.025 < tails[1]


class Data:
    """Batches of a training with one batch."""

    def __init__(self, batch):
        self.batch = batch

    def epoch(self, _):
        yield self.batch


def setup(encoder, **values):
    torch.manual_seed(0)
    config = configs.translation(encoder, encoder, size=16, dropout=0.3, **values)
    rows = [[4 + (i + j) % 20 for j in range(5 + i % 3)] for i in range(6)]
    settings = TrainingSettings(objective=objective_of(TrainingConfig()))
    return ablation.Setup(build_translation(config, 30, 30), Data(pair_batch(rows, rows)), settings)


FAMILIES = {
    "transformer": dict(heads=2, feed_forward=16),
    "recurrent": dict(cell="lstm", attention=dict(score="additive", size=8)),
}
KERNELS = [
    ("training", "recurrent", "recurrent cells", "cell_back"),
    ("training", "recurrent", "recurrent scan", "cell_back"),
    ("training", "transformer", "dropout", "drop"),
    ("training", "transformer", "cross entropy", "cross_entropy_back"),
    ("training", "transformer", "dot attention", "attend"),
    ("training", "recurrent", "additive kernel", "additive_differentiate"),
    ("decoding", "transformer", "frozen weights", "multiply"),
    ("decoding", "transformer", "panels, encoder and decoder step", "multiply"),
    ("decoding", "transformer", "encoder", "encode"),
    ("decoding", "transformer", "decoder step", "decoder_step"),
    ("decoding", "recurrent", "recurrent cells", "cell_step"),
    ("decoding", "recurrent", "recurrent step", "recurrent_step"),
    ("decoding", "transformer", "candidates", "candidates"),
]


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize(("work", "family", "part", "kernel"), KERNELS)
def test_a_part_is_disabled(work, family, part, kernel, monkeypatch):
    begin, call = setup(family, **FAMILIES[family]), kernels.call
    monkeypatch.setattr(kernels, "call", lambda name, *rest: (names.add(name), call(name, *rest)))
    monkeypatch.setattr(ablation, "SEARCHES", {"beam": (2, 3, 6)})
    parts = ablation.TRAINING_PARTS if work == "training" else ablation.DECODING_PARTS

    def run():
        if work == "training":
            ablation.updates(begin, "float32")()
        else:
            ablation.searches(begin, "float32", "beam")()

    names = set()
    run()
    assert kernel in names
    names = set()
    with parts[part]():
        run()
    assert kernel not in names


def test_joined_gradients_are_disabled(monkeypatch):
    begin, built = setup("recurrent", cell="lstm", feeding="attentional"), []

    class Recorded(joined_gradients.JoinedParameters):
        def __init__(self, *arguments):
            built.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(joined_gradients, "JoinedParameters", Recorded)
    run = ablation.updates(begin, "float32")
    run()
    assert built
    built.clear()
    with ablation.TRAINING_PARTS["joined gradients"]():
        run()
    assert not built


def test_turns_alternate_and_ratios_are_times_without_over_times_with(monkeypatch):
    order, seconds = [], iter([2.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr(ablation, "timed", lambda run: (order.append(run()), next(seconds))[1])
    is_disabled = []

    @contextmanager
    def disabled():
        is_disabled.append(True)
        yield
        is_disabled.clear()

    build = lambda: lambda: bool(is_disabled)  # noqa: E731
    assert ablation.ratios(build, disabled, 2) == [3 / 2, 4 / 5]
    assert order == [False, True, True, False]
