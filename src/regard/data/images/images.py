"""Pictures as numbers: of any size and mode, each as a square of one size.

A picture is turned as its EXIF data say, put on white where it is transparent, given three colours
and stretched to a square, so that a cell of the square is a cell of the picture. What cannot be
read is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from regard.data.generated import scenes
from regard.errors import UserError
from regard.files import check_input, shortened
from regard.shapes import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

WHITES = (1.0, 255.0, 65535.0)
"""What is white in wide greys: fractions, bytes that are kept in wider numbers, and two bytes."""

MAX_PIXELS = 50_000_000
"""Largest number of pixels of an image that is decoded, unless a caller names another."""
MAX_DRAFT = 4
"""A baseline JPEG of up to this many times more pixels is decoded at a half, quarter or eighth."""
ROWS_AT_A_TIME = 256


class ImageError(UserError):
    """A file that is no picture, or not a whole one."""


def read_image(
    source: str, size: int, max_pixels: int = MAX_PIXELS
) -> UInt8[np.ndarray, "channel height width"]:
    """Red, green and blue from 0 to 255; PictureError names a file that cannot be read, or that
    has more pixels than `max_pixels`."""
    return _read(source, lambda _: (size, size), max_pixels)


def read_whole(
    source: str, longest: int, max_pixels: int = MAX_PIXELS
) -> UInt8[np.ndarray, "channel height width"]:
    """The same in the picture's own proportions, made smaller where a side has more dots than
    this."""

    def fit(picture: Picture) -> tuple[int, int]:
        shrunk = min(1.0, longest / max(picture.size))
        return max(1, round(shrunk * picture.width)), max(1, round(shrunk * picture.height))

    return _read(source, fit, max_pixels)


def _read(
    source: str, fit: Callable[[Picture], tuple[int, int]], max_pixels: int
) -> UInt8[np.ndarray, "channel height width"]:
    """At the width and height that are to fit it."""
    try:
        path = check_input(source)
    except UserError as error:
        why = str(error).replace("cannot read ", "cannot read the picture ", 1)
        raise ImageError(why) from error
    try:
        picture = _decoded(str(path), fit, max_pixels)
    except ImageError:
        raise
    except Exception as error:  # Pillow's plug-ins raise whatever their code runs into
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ImageError(
            f"cannot read the picture {source}: {why or type(error).__name__}"
        ) from error
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))


def _decoded(source: str, fit: Callable[[Picture], tuple[int, int]], max_pixels: int) -> Picture:
    """The image in RGB, at its fitting size. Any exception of Pillow."""
    from PIL import ImageOps

    image_library = _pillow()
    with image_library.open(source) as opened:
        _bound(opened, source, max_pixels)
        picture = _eight_bits(ImageOps.exif_transpose(opened))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        ground = image_library.new("RGBA", picture.size, (255, 255, 255, 255))
        ground.alpha_composite(picture)
        picture = ground
    resized: Picture = picture.convert("RGB").resize(fit(picture), image_library.Resampling.BICUBIC)
    return resized


@cache
def _pillow() -> ModuleType:
    """Pillow without its warning of many pixels: the bound here is lower, and is an error."""
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    return Image


def _bound(opened: Picture, source: str, max_pixels: int) -> None:
    """PictureError for more pixels, unless a JPEG can be decoded at a fraction of its size."""
    width, height = opened.size
    if width * height <= max_pixels:
        return
    is_baseline = opened.format == "JPEG" and not opened.info.get("progressive")
    if is_baseline and width * height <= MAX_DRAFT * max_pixels:
        opened.draft(opened.mode, (width // 8, height // 8))
    if opened.width * opened.height > max_pixels:
        raise ImageError(
            f"cannot read the picture {source}: it has {width} x {height} pixels, more than "
            f"{max_pixels:,} (data.max_pixels): make it smaller, or raise the bound"
        )


def _eight_bits(picture: Picture) -> Picture:
    """Wide greys scaled to bytes, at which Pillow would cut them off."""
    if picture.mode != "F" and not picture.mode.startswith("I"):
        return picture
    wide = np.asarray(picture)

    def values(first: int) -> np.ndarray:
        rows = wide[first : first + ROWS_AT_A_TIME].astype(np.float64)
        return np.nan_to_num(rows).clip(min=0)

    starts = range(0, len(wide), ROWS_AT_A_TIME)
    lightest = max(float(values(first).max()) for first in starts)
    whites = WHITES if picture.mode == "F" else WHITES[1:]
    white = next((white for white in whites if lightest <= white), lightest)
    narrow = np.empty(wide.shape, np.uint8)
    for first in starts:
        narrow[first : first + ROWS_AT_A_TIME] = (values(first) * (255 / white)).round()
    eight_bits: Picture = _pillow().fromarray(narrow)
    return eight_bits


def draw_scene(source: str, size: int) -> UInt8[np.ndarray, "channel height width"]:
    """A generated scene, which is told as text; PictureError for anything else."""
    try:
        return scenes.pixels(scenes.Scene.of(source), size)
    except UserError as error:
        raise ImageError(
            f"there is no file {shortened(source)}, and as a scene: {error}"
        ) from error
