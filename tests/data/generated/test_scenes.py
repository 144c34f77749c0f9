"""Scenes, their captions and their pictures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from regard.data.generated.scenes import (
    COLOURS,
    PLACES,
    Scene,
    Shape,
    captioned,
    captions,
    claims,
    is_true,
    pixels,
    scenes,
    split_scenes,
)
from regard.errors import UserError
from tests.messages import raises

SCENE = Scene.of("large red circle top left; small blue square centre")


def test_parsing_the_text_of_a_scene_preserves_it():
    for scene in scenes(200, seed=3):
        assert Scene.of(str(scene)) == scene
        assert 1 <= len(scene.shapes) <= 3
        assert len({shape.place for shape in scene.shapes}) == len(scene.shapes)
    again = replace(SCENE, copy=2)
    assert str(again) == f"{SCENE} #2"
    assert Scene.of(str(again)) == again
    assert not np.array_equal(pixels(again), pixels(SCENE))
    for text in (f"{SCENE} #", f"{SCENE} #two", f"{SCENE} #²", f"{SCENE} #{'9' * 5000}"):
        with raises(UserError):
            Scene.of(text)
    for text in ("", "red circle", "large red circle nowhere", "huge red circle top"):
        with pytest.raises(UserError, match="is not a shape"):
            Scene.of(text)


def test_every_caption_is_true_of_its_scene_only():
    drawn = scenes(300, seed=3)
    for scene, other in pairwise(drawn):
        wordings = captions(scene)
        assert len(set(wordings)) == 5
        for caption in wordings:
            assert is_true(caption, scene)
            assert not is_true(caption, other)
            assert {claim.shape for claim in claims(caption)} == set(scene.shapes)


@pytest.mark.parametrize(
    "caption",
    [
        "a large red circle at the top left",  # one is left out
        "a large red circle at the top left and a small blue square at the top",
        "a large red circle at the top left and a small blue square in the centre and a dog",
        "a large red circle at the top left and a large red circle at the top left",
        "red circle top left",
        "",
    ],
)
def test_false_captions_are_not_true(caption):
    assert not is_true(caption, SCENE)


def test_shapes_are_drawn_in_their_boxes_and_colours():
    size = 96
    for place in PLACES:
        for kind in ("circle", "square", "triangle"):
            shape = Shape("large", "red", kind, place)
            seen = pixels(Scene((shape,)), size).astype(int)
            red = (np.abs(seen - np.array(COLOURS["red"])[:, None, None]) < 40).all(axis=0)
            rows, columns = np.nonzero(red)
            left, top, right, bottom = (share * size for share in shape.box)
            assert left - 2 <= columns.min() <= columns.max() <= right + 2
            assert top - 2 <= rows.min() <= rows.max() <= bottom + 2
            area = red.sum() / ((right - left) * (bottom - top))
            expected = {"circle": np.pi / 4, "square": 1, "triangle": 0.5}[kind]
            assert area == pytest.approx(expected, abs=0.12)


def by_number(drawn):
    return Counter(len(scene.shapes) for scene in drawn)


def test_scenes_are_distinct_and_balanced_by_number_of_shapes():
    drawn = scenes(300, seed=3)
    assert by_number(drawn) == {1: 100, 2: 100, 3: 100}
    assert len(set(drawn)) == 300
    drawn = scenes(1100)
    assert by_number(drawn) == {1: 324, 2: 388, 3: 388}
    assert len(set(drawn)) == 1100
    with pytest.raises(UserError, match="0 scenes: expected 1 to 3,966,084"):
        scenes(0)


def test_held_out_scenes_are_distinct_balanced_and_not_trained_on():
    split = split_scenes(1300, (31, 60))
    assert by_number(split.train) == {1: 403, 2: 403, 3: 403}
    assert by_number(split.dev) == {1: 11, 2: 10, 3: 10}
    assert by_number(split.test) == {1: 20, 2: 20, 3: 20}
    held_out = split.dev + split.test
    assert len(set(held_out)) == 91
    assert not {scene.shapes for scene in held_out} & {scene.shapes for scene in split.train}
    assert len(set(map(str, split.train))) == len(split.train) == 1209
    assert len({scene.shapes for scene in split.train}) < 1209


def test_half_of_the_scenes_of_one_shape_are_for_training():
    split = split_scenes(1000, (0, 700))
    assert by_number(split.test) == {1: 162, 2: 269, 3: 269}
    assert by_number(split.train) == {1: 100, 2: 100, 3: 100}
    with pytest.raises(UserError, match="cannot hold out 10 and 90 of 100 scenes"):
        split_scenes(100, (10, 90))
    with raises(UserError):
        split_scenes(5_000_000, (1_000_000, 1_000_000))


def test_a_seed_repeats_scenes():
    first, again, different = (split_scenes(20, (2, 3), seed) for seed in (1, 1, 2))
    assert first == again != different
    assert len(captioned(first.train)) == 75
    np.testing.assert_array_equal(pixels(SCENE), pixels(SCENE))
    assert pixels(SCENE).shape == (3, 64, 64)


def test_claims_have_the_positions_of_their_words():
    first, second = claims(
        "one red circle , large , at the top left and one blue square , small , in the centre"
    )
    assert (str(first.shape), first.words) == ("large red circle top left", (4, 1, 2))
    assert (str(second.shape), second.words) == ("small blue square centre", (15, 12, 13))
    (alone,) = claims("at the top there is a large red square")
    assert alone.words == (6, 7, 8)


def test_the_share_of_cells_in_a_box_is_its_area():
    for shape in SCENE.shapes:
        left, top, right, bottom = shape.box
        for side in (1, 3, 8, 14):
            inside = shape.inside(side)
            assert inside.shape == (side**2,)
            assert inside.mean() == pytest.approx((right - left) * (bottom - top))
            assert inside.min() >= 0
            assert inside.max() <= 1 + 1e-9
    rows = SCENE.shapes[0].inside(8).reshape(8, 8)
    assert rows[:3, :3].sum() == rows.sum()  # top left
