"""Speed of two processes over one, on a tiny model."""

from dataclasses import replace

import pytest

from tests import configs
from tests.benchmarks.scripts import script
from tests.small_runs import small

benchmark = script("processes")


def test_every_setup_is_measured():
    model = configs.transformer(size=16, layers=1, heads=2, feed_forward=24)
    results = benchmark.measure(replace(small(), model=model), num_updates=2, num_turns=1)
    assert [(result.num_processes, result.num_threads) for result in results] == [*benchmark.SETUPS]
    assert [len(result.turns) for result in results] == [1, 1, 2]
    assert len({result.turns[0].words for result in results}) == 1
    assert all(result.speed() > 0 for result in results)
    assert results[2].communication < 1
    assert benchmark.table({"Transformer": results}).count("|") == 3 * 8


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
