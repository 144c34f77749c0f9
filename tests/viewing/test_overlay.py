"""What each word looked at, on the picture."""

from __future__ import annotations

import numpy as np
import pytest

from regard.trace import AttentionMap, Sequence, Trace
from regard.viewing.overlay import draw, grids, save

PICTURE = np.full((3, 32, 32), 200, np.uint8)


def trace(weights):
    target = Sequence("a dog", ("a", "dog", "<eos>"), (0, 1, 2))
    return Trace(Sequence("a.png", (), ()), target, (AttentionMap("image", weights),))


def weights(side=4):
    found = np.full((1, 1, 3, side * side), 0.01)
    found[0, 0, 1, 5] = 0.8
    return found


def panels(figure):
    return {axes.get_title(): axes.images[0].get_array() for axes in figure.axes}


def test_cells_are_a_square_and_heads_are_averaged():
    both = np.concatenate([weights(), weights()[..., ::-1]], axis=1)
    found = grids(trace(both))
    assert found.shape == (3, 4, 4)
    assert found[1, 1, 1] == pytest.approx(0.405)
    assert found[1, 2, 2] == pytest.approx(0.405)
    with pytest.raises(ValueError, match="5 cells are no square"):
        grids(trace(np.ones((1, 1, 3, 5))))


@pytest.mark.parametrize("smooth", [True, False])
def test_what_is_looked_at_is_light_on_one_scale_for_all_words(smooth):
    found = panels(draw(trace(weights()), PICTURE, smooth=smooth))
    assert list(found) == ["picture", "a", "dog", "<eos>"]
    np.testing.assert_allclose(found["picture"], 200 / 255)
    looked = found["dog"][..., 0]
    assert looked[8:16, 8:16].max() == pytest.approx(200 / 255, abs=0.1)
    assert looked[24:, 24:].max() < 0.2
    assert found["a"].max() < 0.2  # it looks everywhere alike


def test_cells_may_be_shown_as_they_are():
    plain = panels(draw(trace(weights()), PICTURE, smooth=False))["dog"][..., 0]
    assert len(np.unique(plain.round(6))) == 2
    assert (plain[8:16, 8:16] == plain.max()).all()


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_files_are_written(tmp_path, suffix):
    path = tmp_path / f"seen.{suffix}"
    save(trace(weights()), PICTURE, path)
    assert path.stat().st_size > 1000
