"""Pictures as numbers: of any size and mode, each as a square of one size.

A picture is turned as its EXIF data say, put on white where it is transparent, given three colours
and stretched to a square, so that a cell of the square is a cell of the picture. What cannot be
read is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from regard.data.generated import scenes
from regard.errors import UserError
from regard.shapes import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

WHITES = (1.0, 255.0, 65535.0)
"""What is white in wide greys: fractions, bytes that are kept in wider numbers, and two bytes."""


class PictureError(UserError):
    """A file that is no picture, or not a whole one."""


def read_picture(source: str, size: int) -> UInt8[np.ndarray, "channel height width"]:
    """Red, green and blue from 0 to 255; PictureError names a file that cannot be read."""
    return _read(source, lambda _: (size, size))


def read_whole(source: str, longest: int) -> UInt8[np.ndarray, "channel height width"]:
    """The same in the picture's own proportions, made smaller where a side has more dots than
    this."""

    def fit(picture: Picture) -> tuple[int, int]:
        shrunk = min(1.0, longest / max(picture.size))
        return max(1, round(shrunk * picture.width)), max(1, round(shrunk * picture.height))

    return _read(source, fit)


def _read(
    source: str, fit: Callable[[Picture], tuple[int, int]]
) -> UInt8[np.ndarray, "channel height width"]:
    """At the width and height that are to fit it."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(source) as opened:
            picture = _eight_bits(ImageOps.exif_transpose(opened))
            if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
                picture = picture.convert("RGBA")
                ground = Image.new("RGBA", picture.size, (255, 255, 255, 255))
                picture = Image.alpha_composite(ground, picture)
            picture = picture.convert("RGB").resize(fit(picture), Image.Resampling.BICUBIC)
    except (
        OSError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
        SyntaxError,
        ValueError,
    ) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise PictureError(f"cannot read the picture {source}: {why}") from error
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))


def _eight_bits(picture: Picture) -> Picture:
    """Wide greys scaled to bytes, at which Pillow would cut them off."""
    from PIL import Image

    if picture.mode != "F" and not picture.mode.startswith("I"):
        return picture
    values = np.nan_to_num(np.asarray(picture, np.float64)).clip(min=0)
    lightest = values.max()
    whites = WHITES if picture.mode == "F" else WHITES[1:]
    white = next((white for white in whites if lightest <= white), lightest)
    return Image.fromarray((values * (255 / white)).round().astype(np.uint8))


def draw_scene(source: str, size: int) -> UInt8[np.ndarray, "channel height width"]:
    """A generated scene, which is told as text; PictureError for anything else."""
    try:
        return scenes.pixels(scenes.Scene.of(source), size)
    except UserError as error:
        raise PictureError(f"there is no file {source}, and as a scene: {error}") from error
