"""Captions of scenes, and looks at them, that are made by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from regard.data.generated.scenes import Scene, claims
from regard.pipeline.scene_scores import SceneScores, attention_inside
from regard.pipeline.translator import Translation
from regard.trace import AttentionMap, Sequence

SCENE = Scene.of("large red circle top left; small blue square centre")
SIDE = 6


def looking(text, weights):
    """A caption whose words looked so: "word cell"."""
    pieces = (*text.split(), "<eos>")
    weights = np.concatenate([weights, np.full((1, SIDE**2), 1 / SIDE**2)])
    looked = SimpleNamespace(
        maps=(AttentionMap("image", weights[None, None]),),
        target=Sequence(text, pieces, tuple(range(len(pieces)))),
    )
    return Translation("", text, 0.0, looked=looked)


def test_even_attention_is_once_the_share():
    text = "a large red circle at the top left and a small blue square in the centre"
    even = looking(text, np.full((len(text.split()), SIDE**2), 1 / SIDE**2))
    for claim in claims(text):
        assert attention_inside(even, claim) == pytest.approx(1)


def test_attention_in_the_box_alone_is_one_over_its_share():
    """And only the words for size, colour and kind count."""
    text = "there is a small blue square in the centre"
    weights = np.zeros((9, SIDE**2))
    weights[:, 0] = 1  # the top left corner
    weights[3:6] = 0
    weights[3:6, [14, 15, 20, 21]] = 0.25  # the four in the middle, which the box fills partly
    (claim,) = claims(text)
    area = 0.15**2
    filled = area * SIDE**2 / 4
    assert attention_inside(looking(text, weights), claim) == pytest.approx(filled / area)


def test_what_is_not_there_is_not_true_and_not_looked_for():
    scores = SceneScores()
    wrong = "a small red circle at the top left and a small blue square in the centre"
    for text in (wrong, "nonsense"):
        rows = len(text.split())
        scores.add([SCENE], [looking(text, np.full((rows, SIDE**2), 1 / SIDE**2))])
    true, attention = scores.scores()
    assert (true.value, true.signature) == (0, "scenes:2")
    assert (attention.value, attention.signature) == (
        pytest.approx(1),
        "of its box's share|shapes:1",
    )
    nothing = SceneScores()
    nothing.add([SCENE], [looking("nonsense", np.full((1, SIDE**2), 1 / SIDE**2))])
    assert math.isnan(nothing.scores()[1].value)
