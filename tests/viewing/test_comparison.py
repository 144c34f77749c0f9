"""Figures of comparisons of runs."""

from __future__ import annotations

import pytest

from regard.viewing import comparison


@pytest.mark.parametrize(
    ("scores", "limits"),
    [
        ({"a": [0.0, 0.0], "b": [0.0]}, (0, 1)),
        ({"a": [99.9, 100.0]}, (98.9, 101)),
        ({"a": [-0.1], "b": [0.2]}, (-1.1, 1.2)),
    ],
)
def test_equal_scores_look_equal(scores, limits):
    (axis,) = comparison.draw({"BLEU": scores}).axes
    assert axis.get_xlim() == pytest.approx(limits)


def test_scores_are_not_below_zero():
    (axis,) = comparison.draw({"chrF": {"a": [1.0, 40.0], "b": [60.0]}}).axes
    low, high = axis.get_xlim()
    assert (low, high > 60) == (0, True)
