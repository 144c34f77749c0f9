"""Schedules at points that can be worked out by hand."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.training.schedule import (
    Constant,
    CosineDecay,
    InverseSquareRoot,
    LinearDecay,
    Plateau,
    Progress,
    Schedule,
)

SCHEDULES = {
    "constant": Constant,
    "cosine": CosineDecay,
    "linear": LinearDecay,
    "inverse_square_root": InverseSquareRoot,
    "plateau": Plateau,
}
ALL = [make(warmup) for make in SCHEDULES.values() for warmup in (0, 7)]


def factors(schedule: Schedule, *updates: int, total: int = 13) -> list[float]:
    return [schedule.factor(Progress(update, total)) for update in updates]


@pytest.mark.parametrize(
    "schedule", [Constant(4), LinearDecay(4), CosineDecay(4), InverseSquareRoot(4)]
)
def test_warmup_is_linear_in_every_schedule(schedule):
    assert factors(schedule, 1, 2, 3, 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_schedules_after_the_peak_equal_their_formulas():
    # With a warmup of 4 and 13 updates, the ten updates from 4 to 14 lead from one to zero.
    assert factors(Constant(4), 5, 13) == [1, 1]
    assert factors(LinearDecay(4), 5, 9, 13) == pytest.approx([0.9, 0.5, 0.1])
    assert factors(CosineDecay(4), 9, 13) == pytest.approx([0.5, (1 - math.cos(0.1 * math.pi)) / 2])
    assert factors(InverseSquareRoot(4), 9, 16) == pytest.approx([2 / 3, 0.5])


def test_inverse_square_root_is_the_papers_equation():
    size, warmup = 512, 4000
    for update in (1, 399, 4000, 4001, 100_000):
        paper = size**-0.5 * min(update**-0.5, update * warmup**-1.5)
        ours = (size * warmup) ** -0.5 * InverseSquareRoot(warmup).factor(Progress(update, 9))
        assert ours == pytest.approx(paper, rel=1e-12)


def test_plateau_halves_when_scores_stop_rising():
    def after(*scores: float) -> float:
        return Plateau(patience=2).factor(Progress(5, 13, gains=scores))

    assert after() == 1
    assert after(3.0, 2.0) == 1
    assert after(3.0, 2.0, 3.0) == 0.5  # as good is not better
    assert after(3.0, 2.0, 3.0, 4.0, 1.0) == 0.5
    assert after(3.0, 2.0, 3.0, 1.0, 2.0) == 0.25
    assert Plateau(shrink=0.1).factor(Progress(5, 13, gains=(2.0, 1.0))) == 0.1


@given(st.sampled_from(ALL), st.integers(1, 100), st.integers(1, 100))
@example(LinearDecay(7), 8, 6)  # a warmup that is longer than the run
def test_factors_stay_between_zero_and_one(schedule, update, total):
    assert 0 <= schedule.factor(Progress(update, total)) <= 1
    if update <= total:
        assert schedule.factor(Progress(update, total)) > 0
