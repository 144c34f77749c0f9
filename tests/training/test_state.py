"""Ranking of validations by score and loss, in both directions of the score."""

from regard.training.state import TrainingState


def test_the_highest_score_is_the_best():
    state = TrainingState(scores=[2.0, 5.0, 3.0], losses=[None] * 3)
    assert (state.best, state.ranked) == (1, [1, 2, 0])


def test_the_lowest_error_rate_is_the_best():
    state = TrainingState(scores=[2.0, 5.0, 3.0], losses=[None] * 3, higher_is_better=False)
    assert (state.best, state.ranked, state.gains) == (0, [0, 2, 1], [-2.0, -5.0, -3.0])


def test_equal_scores_are_ranked_by_loss_then_by_time():
    losses = [3.0, 1.0, 1.0, float("nan"), None]
    for higher_is_better in (True, False):
        state = TrainingState(scores=[7.0] * 5, losses=losses, higher_is_better=higher_is_better)
        assert state.ranked == [1, 2, 0, 3, 4]


def test_scores_that_differ_by_rounding_errors_are_equal():
    state = TrainingState(scores=[3.9e-09, 1.9e-09, -4e-8], losses=[3.0, 2.0, 4.0])
    assert state.ranked == [1, 0, 2]
    errors = TrainingState(scores=[0.0013, 0.0012], losses=[3.0, 4.0], higher_is_better=False)
    assert errors.best == 1
