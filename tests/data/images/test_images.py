"""Images of any size and mode become squares of one size; a file that is not an image is named."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from regard.data.generated.scenes import Scene, pixels
from regard.data.images.images import (
    ImageError,
    decode_image,
    draw_scene,
    read_image,
    read_proportional,
)
from tests.messages import raises


def saved(path, picture, **how):
    picture.save(path, **how)
    return str(path)


def halves(size=(40, 20)):
    """Red at the left, blue at the right."""
    picture = Image.new("RGB", size, (255, 0, 0))
    picture.paste((0, 0, 255), (size[0] // 2, 0, *size))
    return picture


def corners(values):
    """The upper left and the lower right dot."""
    return values[:, 1, 1].tolist(), values[:, -2, -2].tolist()


def test_images_are_stretched_to_squares(tmp_path):
    values = read_image(saved(tmp_path / "a.png", halves()), 16)
    assert values.shape == (3, 16, 16)
    assert values.dtype == np.uint8
    assert corners(values) == ([255, 0, 0], [0, 0, 255])


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "I;16", "LA"])
def test_every_mode_is_converted_to_rgb(tmp_path, mode):
    source = Image.new("L", (30, 30), 255)
    picture = Image.fromarray(np.full((30, 30), 65535, np.uint16)) if mode == "I;16" else None
    picture = picture or source.convert(mode)
    suffix = "tiff" if mode in ("CMYK", "I;16") else "png"
    values = read_image(saved(tmp_path / f"a.{suffix}", picture), 8)
    assert values.shape == (3, 8, 8)
    assert (values > 250).all()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.full((30, 30), 20_000, np.uint16), 78),
        (np.full((30, 30), 200, np.uint16), 200),
        (np.full((30, 30), 20_000, np.int32), 78),
        (np.full((30, 30), -5, np.int32), 0),
        (np.full((30, 30), 2**30, np.int32), 255),
        (np.full((30, 30), 0.5, np.float32), 128),
        (np.full((30, 30), 100.0, np.float32), 100),
        (np.full((30, 30), np.nan, np.float32), 0),
    ],
)
def test_sixteen_bit_greys_keep_their_lightness(tmp_path, values, wanted):
    result = read_image(saved(tmp_path / "a.tiff", Image.fromarray(values)), 8)
    assert np.unique(result).tolist() == [wanted]


def test_transparent_pixels_become_white(tmp_path):
    picture = Image.new("RGBA", (20, 20), (255, 0, 0, 0))
    picture.paste((0, 0, 255, 255), (10, 0, 20, 20))
    values = read_image(saved(tmp_path / "a.png", picture), 16)
    assert corners(values) == ([255, 255, 255], [0, 0, 255])


def test_exif_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    values = read_image(saved(tmp_path / "a.png", halves(), exif=exif), 16)
    assert corners(values) == ([0, 0, 255], [255, 0, 0])


@pytest.mark.parametrize(
    ("size", "shape"),
    [((40, 20), (20, 40)), ((20, 50), (50, 20)), ((90, 45), (25, 50)), ((200, 1), (1, 50))],
)
def test_images_may_keep_their_proportions(tmp_path, size, shape):
    values = read_proportional(saved(tmp_path / "a.png", halves(size)), 50)
    assert values.shape == (3, *shape)


def test_images_with_their_proportions_are_checked_alike(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # its right side is below
    values = read_proportional(saved(tmp_path / "a.png", halves(), exif=exif), 50)
    assert values.shape == (3, 40, 20)
    assert corners(values) == ([255, 0, 0], [0, 0, 255])
    clear = Image.new("RGBA", (30, 10), (255, 0, 0, 0))
    assert (read_proportional(saved(tmp_path / "b.png", clear), 50) == 255).all()
    with pytest.raises(ImageError, match=r"cannot read the image .*gone\.png"):
        read_proportional("gone.png", 50)


def test_files_that_are_not_images_are_named(tmp_path):
    whole = (tmp_path / "whole.jpg", tmp_path / "cut.jpg")
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(whole[0])
    whole[1].write_bytes(whole[0].read_bytes()[:900])
    (tmp_path / "text.png").write_text("no picture")
    for name in ("cut.jpg", "text.png", "gone.png"):
        with pytest.raises(ImageError, match=f"cannot read the image .*{name}"):
            read_image(str(tmp_path / name), 8)


def test_a_scene_is_drawn():
    scene = Scene.of("large red circle top left")
    np.testing.assert_array_equal(draw_scene(str(scene), 32), pixels(scene, 32))
    with pytest.raises(ImageError, match="is not a shape"):
        draw_scene("a dog", 32)


def test_a_received_jpeg_of_many_scans_is_rejected():
    """Each scan of a few bytes takes the time of all pixels."""
    file = io.BytesIO()
    Image.new("L", (64, 64), 128).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    assert decode_image(content, "a", 16).shape == (3, 16, 16)
    last = content[content.rindex(b"\xff\xda") : -2]
    with raises(ImageError):
        decode_image(content[:-2] + last * 1000 + content[-2:], "a", 16)
