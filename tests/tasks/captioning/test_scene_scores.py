"""Scores of hand-written captions of scenes with hand-made attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention import ScaledSoftmax, Sigmoid, Softmax
from regard.data.generated.scenes import Scene, claims
from regard.tasks.captioning.scene_scores import SceneScores, attention_inside

SCENE = Scene.of("large red circle top left; small blue square centre")
SIDE = 6
TEXT = "there is a small blue square in the centre"


def even(text):
    """Every word, and the end, looks everywhere alike."""
    rows = len(text.split()) + 1
    return np.full((rows, SIDE**2), 1 / SIDE**2), tuple(range(rows))


def test_uniform_attention_scores_one():
    text = "a large red circle at the top left and a small blue square in the centre"
    for claim in claims(text):
        assert attention_inside(claim, *even(text)) == pytest.approx(1)


@pytest.mark.parametrize("normaliser", [Softmax(), ScaledSoftmax(), Sigmoid()])
def test_uniform_attention_scores_one_whatever_its_sum(normaliser):
    """Scores of zero for 16 cells: the weights sum to 1, 16 and 8."""
    (claim,) = claims(TEXT)
    weights = normaliser(torch.zeros(10, 16), None).numpy()
    assert attention_inside(claim, weights, range(10)) == pytest.approx(1)


def test_rows_have_equal_weight_whatever_their_sum():
    weights, words = even(TEXT)
    weights[3] = 0
    weights[3, 0] = 0.1  # the top left corner, outside the box
    weights[4] *= 50
    (claim,) = claims(TEXT)
    assert attention_inside(claim, weights, words) == pytest.approx(2 / 3)


def test_only_words_of_size_colour_and_kind_are_scored():
    weights = np.zeros((10, SIDE**2))
    weights[:, 0] = 1  # the top left corner
    weights[3:6] = 0
    weights[3:6, [14, 15, 20, 21]] = 0.25  # the four in the middle, which the box fills partly
    (claim,) = claims(TEXT)
    area = 0.15**2
    filled = area * SIDE**2 / 4
    assert attention_inside(claim, weights, range(10)) == pytest.approx(filled / area)


def test_pieces_of_a_word_have_equal_weight():
    weights, words = even(TEXT)
    weights[4] = 0  # of "blue", which is cut in two
    (claim,) = claims(TEXT)
    cut = np.insert(weights, 4, weights[4], axis=0)
    assert attention_inside(claim, cut, (0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9)) == pytest.approx(0.5)
    assert attention_inside(claim, weights, words) == pytest.approx(2 / 3)


def test_false_claims_are_not_scored_for_attention():
    scores = SceneScores()
    wrong = "a small red circle at the top left and a small blue square in the centre"
    for text in (wrong, "nonsense"):
        scores.add(SCENE, text)
        scores.add_attention(SCENE, text, *even(text))
    true, of_two, attention = scores.scores()
    assert (true.value, true.signature) == (0, "scenes:2")
    assert (of_two.name, of_two.signature) == ("true, 2 shapes", "scenes:2")
    assert attention.value == pytest.approx(1)
    assert attention.signature == "times its box's share|shapes:1"
    nothing = SceneScores()
    nothing.add(SCENE, "nonsense")
    nothing.add_attention(SCENE, "nonsense", *even("nonsense"))
    assert [score.name for score in nothing.scores()] == ["true", "true, 2 shapes"]


def test_true_captions_are_counted_by_number_of_shapes():
    scores, text = SceneScores(), "a large red circle at the top left"
    single = Scene.of("large red circle top left")
    for scene in (single, single, SCENE):
        scores.add(scene, text)
    scores.add(single, f"{text} and a small red circle at the top")
    by_name = {score.name: (score.value, score.signature) for score in scores.scores()}
    assert by_name["true"] == (50, "scenes:4")
    assert by_name["true, 1 shape"] == (pytest.approx(200 / 3), "scenes:3")
    assert by_name["true, 2 shapes"] == (0, "scenes:1")
    assert "true, 3 shapes" not in by_name


def test_numbers_of_shapes_with_fewer_true_captions_are_a_slice():
    scores, text = SceneScores(), "a large red circle at the top left"
    single = Scene.of("large red circle top left")
    for number in range(80):
        scores.add(SCENE if number < 40 else single, text)
    (worse,) = scores.slices()
    assert (worse.name, worse.num) == ("scenes of 2 shapes", 40)
    assert (worse.metric, worse.score, worse.others) == ("true", 0, 100)
    even_scores = SceneScores()
    for number in range(80):
        even_scores.add(SCENE if number < 40 else single, "nonsense")
    assert even_scores.slices() == ()
