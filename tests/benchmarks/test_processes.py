"""Speed of two processes over one, on a tiny model."""

from dataclasses import replace

import pytest

from tests import configs
from tests.benchmarks.scripts import script
from tests.small_runs import small

benchmark = script("processes")


def test_processes_are_measured_with_and_without_communication(monkeypatch):
    monkeypatch.setattr(benchmark, "SETUPS", [(2, 1)])
    model = configs.transformer(size=16, layers=1, heads=2, feed_forward=24)
    (result,) = benchmark.measure(replace(small(), model=model), num_updates=2, num_turns=1)
    assert (result.num_processes, result.num_threads) == (2, 1)
    assert [turn.communicates for turn in result.turns] == [True, False]
    assert all(turn.seconds > 0 and turn.words > 0 for turn in result.turns)
    assert result.communication < 1


def test_ratios_are_medians_of_turns():
    def result(seconds, alone=()):
        turns = []
        for place, value in enumerate(seconds):
            turns.append(benchmark.Turn(value, 100, communicates=True))
            turns += [benchmark.Turn(alone[place], 100, communicates=False)] if alone else []
        return benchmark.Result(1, 1, tuple(turns))

    assert result([1, 2, 4]).speed() == 50
    two = result([1, 2, 4], alone=[0.9, 1.5, 1])
    assert two.communication == pytest.approx(0.25)
    row = benchmark.table({"A": [result([4]), result([3]), two]}).splitlines()[-1]
    assert row == "| A | 25 | 33 | 50 | 2.00x | 1.50x | 25% |"
