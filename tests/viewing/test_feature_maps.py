"""Figures of feature maps: their panels, numbers, labels and scales."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.viewing import feature_maps
from regard.viewing.colours import DIVERGING, SCALE
from regard.viewing.feature_maps import FeatureMap, FeatureMaps, draw, save
from regard.viewing.figure import Style
from tests.messages import check_message

random = np.random.default_rng(5)
TEXT = FeatureMaps(
    (
        FeatureMap("embeddings", random.normal(size=(7, 3))),
        FeatureMap("layer 1", random.random((11, 3))),
    ),
    ("she", "$", "."),
    "en",
)
IMAGE = FeatureMaps(
    (
        FeatureMap("block 1", random.random((5, 4, 6))),
        FeatureMap("block 2", random.random((7, 2, 3))),
    ),
    filters=random.normal(size=(5, 3, 2, 2)),
)
COLOURS = np.full((3, 4, 6), 200, np.uint8)


def panels(figure):
    """Return the axes that show numbers, without colour bars."""
    return [axes for axes in figure.axes if axes.images]


def test_a_layer_of_a_text_has_channels_as_rows_and_pieces_as_columns():
    figure = draw(TEXT, style=Style(source_name="English"))
    first, second = panels(figure)
    assert (first.get_title("left"), second.get_title("left")) == (
        "embeddings: 7 channels",
        "layer 1: 11 channels",
    )
    for axes, layer in zip((first, second), TEXT.layers, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), layer.values)
        assert [text.get_text() for text in axes.get_xticklabels()] == ["she", "$", "."]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("English", "channel")
    numbers = [text.get_text() for text in second.get_yticklabels()]
    assert (numbers[0], numbers[-1]) == ("1", "11")
    assert second.get_yticks().tolist() == [int(number) - 1 for number in numbers]
    assert {axes.get_ylabel() for axes in figure.axes} == {"channel", "output"}


def test_zero_is_white_with_and_without_negative_numbers():
    first, second = (axes.images[0] for axes in panels(draw(TEXT)))
    largest = np.abs(TEXT.layers[0].values).max()
    assert first.get_clim() == (-largest, largest)
    assert second.get_clim() == (0, TEXT.layers[1].values.max())
    for image in (first, second):
        np.testing.assert_allclose(image.cmap(image.norm(0.0))[:3], 1, atol=0.01)
    assert (len(first.cmap.colors), len(second.cmap.colors)) == (len(DIVERGING), len(SCALE))


def test_a_layer_of_zeros_is_drawn():
    (axes,) = panels(draw(FeatureMaps((FeatureMap("layer 1", np.zeros((2, 1))),), ("a",))))
    assert axes.images[0].get_array().max() == 0


def test_an_image_has_a_panel_for_each_filter_and_each_channel(monkeypatch):
    monkeypatch.setattr(feature_maps, "MAX_TILES", 5)
    figure = draw(IMAGE, image=COLOURS)
    image, *rest = panels(figure)
    np.testing.assert_array_equal(image.images[0].get_array()[0, 0], COLOURS[:, 0, 0])
    filters, first, second = rest[:5], rest[5:10], rest[10:]
    assert len(second) == 5
    check_message(second[0].get_title("left"))
    for number, axes in enumerate(first):
        np.testing.assert_array_equal(axes.images[0].get_array(), IMAGE.layers[0].values[number])
        assert axes.texts[0].get_text() == str(number + 1)
    assert IMAGE.filters is not None
    largest = np.abs(IMAGE.filters).max()
    for number, axes in enumerate(filters):
        expected = 0.5 + IMAGE.filters[number].transpose(1, 2, 0) / (2 * largest)
        np.testing.assert_allclose(axes.images[0].get_array(), expected)
    assert len(panels(draw(IMAGE.layer(2)))) == 7


def test_layers_are_numbered_without_the_embeddings():
    assert TEXT.layer(1).layers == TEXT.layers[1:]
    assert TEXT.layer(1).labels == TEXT.labels
    assert IMAGE.layer(1).filters is IMAGE.filters
    assert IMAGE.layer(2).layers == IMAGE.layers[1:]
    assert IMAGE.layer(2).filters is None
    for maps, number, message in (
        (TEXT, 2, "there is no layer 2: expected 1 to 1"),
        (IMAGE, 0, "there is no layer 0: expected 1 to 2"),
        (FeatureMaps(TEXT.layers[:1], TEXT.labels), 1, "the encoder has embeddings only"),
    ):
        with pytest.raises(UserError, match=message):
            maps.layer(number)


def test_files_are_written(tmp_path):
    save(IMAGE.layer(1), tmp_path / "a.png", style=Style(title="$", width=4.0))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="expected a file name with"):
        save(TEXT, tmp_path / "a.gif")
