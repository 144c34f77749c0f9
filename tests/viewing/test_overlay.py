"""Attention of each word, drawn on the image."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from regard.trace import AttentionMap, TokenSequence, Trace
from regard.viewing.colours import luminance
from regard.viewing.figure import MARGIN, Style
from regard.viewing.labels import LabelledMap
from regard.viewing.overlay import OverlaySettings, draw, grids, save, under_film
from tests.messages import check_message

CELLS = OverlaySettings(smooth=False)
PICTURE = np.full((3, 32, 32), 200, np.uint8)


def trace(weights):
    target = TokenSequence("a dog", ("a", "dog", "<eos>"), (0, 1, 2))
    return Trace(TokenSequence("a.png", (), ()), target, (AttentionMap("image", weights),))


def weights(side=4):
    result = np.full((1, 1, 3, side * side), 0.01)
    result[0, 0, 1, 5] = 0.8
    return result


def panels(figure):
    return {axes.get_title(): axes.images[0].get_array() for axes in drawn_panels(figure)}


def drawn_panels(figure):
    """Axes of the figure but the colour scale."""
    return figure.axes[:-1]


def test_cells_are_a_square_and_heads_are_averaged():
    both = np.concatenate([weights(), weights()[..., ::-1]], axis=1)
    result = grids(LabelledMap.of_words(trace(both), "image"))
    assert result.shape == (3, 4, 4)
    assert result[1, 1, 1] == pytest.approx(0.405)
    assert result[1, 2, 2] == pytest.approx(0.405)
    with pytest.raises(ValueError, match="square grid of cells, got 5"):
        draw(trace(np.ones((1, 1, 3, 5))), PICTURE)


@pytest.mark.parametrize("smooth", [True, False])
def test_attended_areas_are_coloured_on_one_scale_for_all_words(smooth):
    result = panels(draw(trace(weights()), PICTURE, settings=OverlaySettings(smooth=smooth)))
    assert list(result) == ["image", "a", "dog", "<eos>"]
    np.testing.assert_array_equal(result["image"], 200)
    green = result["dog"][..., 1]
    pale = round(255 * (0.45 + 0.55 * 200 / 255))
    assert green[24:, 24:].min() == pytest.approx(pale, abs=9)
    assert green[8:16, 8:16].min() < pale / 2
    assert result["a"].min() == pytest.approx(pale, abs=9)  # it attends evenly


def test_cells_may_be_drawn_without_smoothing():
    plain = panels(draw(trace(weights()), PICTURE, settings=CELLS))["dog"][..., 0]
    assert len(np.unique(plain)) == 2
    assert (plain[8:16, 8:16] == plain.min()).all()


@pytest.mark.parametrize(("height", "width"), [(48, 96), (90, 30), (7, 700)])
def test_cells_are_stretched_to_the_images_proportions(height, width):
    picture = np.full((3, height, width), 200, np.uint8)
    figure = draw(trace(weights()), picture, settings=CELLS)
    brightness = panels(figure)["dog"][..., 0]
    assert brightness.shape == (height, width)
    row_labels, column_labels = np.nonzero(brightness == brightness.min())
    assert (row_labels.min() / height, (row_labels.max() + 1) / height) == pytest.approx(
        (0.25, 0.5), abs=0.15
    )
    assert (column_labels.min() / width, (column_labels.max() + 1) / width) == pytest.approx(
        (0.25, 0.5), abs=0.02
    )
    for axes in drawn_panels(figure):
        bounds = axes.get_position()
        drawn = bounds.width * figure.get_figwidth() / (bounds.height * figure.get_figheight())
        assert drawn == pytest.approx(width / height)
        assert 0 <= bounds.x0 < bounds.x1 <= 1.0001
        assert 0 <= bounds.y0 < bounds.y1 <= 1.0001


def test_panels_have_room_for_long_words():
    pieces = ("▁Donau", "dampf", "schiff", "▁a", "<eos>")
    target = TokenSequence("Donaudampfschiff a", pieces, (0, 0, 0, 1, 2))
    cells = np.zeros((2, 1, 5, 4))
    cells[:, 0, :3] = np.eye(4)[:3]
    cells[1, 0, 3, 3] = 1
    result = Trace(TokenSequence("a.png", (), ()), target, (AttentionMap("image", cells),))
    looks = LabelledMap.of_words(result, "image")
    np.testing.assert_allclose(grids(looks)[0], [[1 / 3, 1 / 3], [1 / 3, 0]])
    figure = draw(looks.part(layer=2), np.full((3, 60, 20), 200, np.uint8))
    assert list(panels(figure)) == ["image", "Donaudampfschiff", "a", "<eos>"]
    check_message(figure.texts[-1].get_text())
    renderer = figure.canvas.get_renderer()
    titles = [axes.title.get_window_extent(renderer) for axes in drawn_panels(figure)]
    assert all(one.x1 < other.x0 for one, other in pairwise(titles))


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_overlays_are_saved(tmp_path, suffix):
    path = tmp_path / f"seen.{suffix}"
    save(trace(weights()), PICTURE, path)
    assert path.stat().st_size > 1000


def test_the_image_stays_visible_and_the_colour_darkens_with_the_weight():
    levels = np.linspace(0, 1, 17)
    for brightness in (0, 128, 255):
        colours = np.full((1, 17, 3), brightness, np.uint8)
        row = [luminance(colour / 255) for colour in under_film(colours, levels[None])[0]]
        assert all(left > right for left, right in pairwise(row))
        assert row[0] > 0.15
    red, green = (
        under_film(np.array([[colour]], np.uint8), np.zeros((1, 1)))[0, 0].astype(int)
        for colour in ((130, 0, 0), (0, 66, 0))  # of equal brightness
    )
    assert abs(red - green).max() > 30
    dark, light = (
        under_film(np.full((1, 1, 3), value, np.uint8), np.ones((1, 1)))[0, 0].astype(int)
        for value in (0, 255)
    )
    assert (light - dark).max() > 60


def test_each_word_may_have_its_own_scale():
    assert OverlaySettings().scale == "image"
    figure = draw(trace(weights()), PICTURE, settings=OverlaySettings(smooth=False, scale="word"))
    numbers = [axes.texts[0].get_text() for axes in drawn_panels(figure)[1:]]
    assert numbers == ["0.01", "0.8", "0.01"]
    assert all(axes.texts[0].get_path_effects() for axes in drawn_panels(figure)[1:])
    result = panels(figure)
    assert result["a"].max() == result["dog"].min() or result["a"].max() < 200
    assert "0 to the number in each panel" in figure.texts[-1].get_text()


def test_uniform_attention_is_said_and_the_style_is_used():
    even = trace(np.full((1, 1, 3, 16), 1 / 16))
    figure = draw(even, PICTURE, style=Style(title="a dog", source_name="photo", width=5.0))
    texts = [text.get_text() for text in figure.texts]
    check_message(texts[0])
    assert texts[1] == "a dog"
    assert next(iter(panels(figure))) == "photo"
    assert figure.get_tightbbox().width + 2 * MARGIN == pytest.approx(5, abs=0.25)


@pytest.mark.parametrize("text", ["$\\frac{$", "a\nb\0c", "\ud800", "<b> & $x^2$"])
def test_names_and_titles_are_plain_text(text):
    labelled = replace(LabelledMap.of_words(trace(weights()), "image"), title=text)
    figure = draw(labelled, PICTURE, style=Style(title=text, source_name=text))
    figure.canvas.draw()
    names = [figure.axes[0].get_title(), *(artist.get_text() for artist in figure.texts)]
    assert all("\n" not in name and "\0" not in name for name in names)
    assert names[0].startswith(text[0] if text.isprintable() else ("a b", "\\ud800"))


def test_other_images_and_weights_are_named():
    for shape in ((32, 32, 3), (4, 8, 8), (3, 0, 8)):
        with pytest.raises(ValueError, match=r"must have the shape \(3, height, width\), got"):
            draw(trace(weights()), np.zeros(shape, np.uint8))
    labelled = LabelledMap.of_words(trace(weights()), "image")
    with pytest.raises(ValueError, match="weights must be finite"):
        draw(replace(labelled, weights=labelled.weights * np.nan), PICTURE)
