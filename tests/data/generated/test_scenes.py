"""Scenes, their captions and their pictures."""

from __future__ import annotations

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
)
from regard.errors import UserError

SCENE = Scene.of("large red circle top left; small blue square centre")


def test_a_scene_is_a_text_and_comes_back():
    for scene in scenes(200, seed=3):
        assert Scene.of(str(scene)) == scene
        assert 1 <= len(scene.shapes) <= 3
        assert len({shape.place for shape in scene.shapes}) == len(scene.shapes)
    for text in ("", "red circle", "large red circle nowhere", "huge red circle top"):
        with pytest.raises(UserError, match="is no shape of a scene"):
            Scene.of(text)


def test_every_wording_is_true_of_its_scene_and_of_no_other():
    drawn = scenes(300, seed=3)
    for scene, other in pairwise(drawn):
        told = captions(scene)
        assert len(set(told)) == 5
        for caption in told:
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
def test_what_is_not_so_is_no_truth(caption):
    assert not is_true(caption, SCENE)


def test_shapes_stand_in_their_boxes_and_have_their_colours():
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


def test_the_same_seed_gives_the_same():
    assert captioned(20, 1) == captioned(20, 1) != captioned(20, 2)
    assert len(captioned(20, 1)) == 100
    np.testing.assert_array_equal(pixels(SCENE), pixels(SCENE))
    assert pixels(SCENE).shape == (3, 64, 64)


def test_claims_say_where_a_shape_is_described():
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
