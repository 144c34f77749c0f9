"""Readers of image files of any size and mode.

An image is rotated by its EXIF data, put on a white ground if it is transparent, converted to RGB
and stretched to a square, so that a grid cell of the square is a grid cell of the image. Errors
name the file.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from regard.data.generated import scenes
from regard.errors import UserError
from regard.shapes import UInt8
from regard.storage.files import check_input, shorten_name

if TYPE_CHECKING:
    from PIL.Image import Image

WHITES = (1.0, 255.0, 65535.0)
"""Values of white in wide greys: fractions, bytes stored in wider numbers, and two bytes."""

MAX_PIXELS = 50_000_000
"""Largest number of pixels of an image that is decoded, unless a caller names another."""
MAX_DRAFT = 4
"""Largest factor by which a baseline JPEG may exceed the bound of pixels. Such a file is decoded at
a half, a quarter or an eighth of its size."""
ROWS_AT_A_TIME = 256
RECEIVED = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
"""Formats of images that come from other machines. Pillow reads more formats, some of them by other
programs."""
MAX_SCANS = 100
"""Largest number of scans of a JPEG that comes from another machine. A progressive JPEG has about
ten. A scan of a few bytes takes as long as all pixels, so a small file could take hours."""
SCAN = b"\xff\xda"
"""Beginning of a scan. Inside the data of a scan, no other byte than 0 follows 255."""


class ImageError(UserError):
    """File that is not an image, or an incomplete image."""


def read_image(
    source: str, size: int, max_pixels: int = MAX_PIXELS
) -> UInt8[np.ndarray, "channel height width"]:
    """Read an image, stretched to a square, as red, green and blue from 0 to 255. ImageError if the
    file cannot be read or has more than `max_pixels` pixels."""
    return _read(source, lambda _: (size, size), max_pixels)


def read_proportional(
    source: str, longest: int, max_pixels: int = MAX_PIXELS
) -> UInt8[np.ndarray, "channel height width"]:
    """Read an image in its proportions, scaled down if a side is longer than `longest` pixels.
    Colours and errors as in `read_image`."""

    def fit(image: Image) -> tuple[int, int]:
        scale = min(1.0, longest / max(image.size))
        return max(1, round(scale * image.width)), max(1, round(scale * image.height))

    return _read(source, fit, max_pixels)


def decode_image(
    content: bytes, name: str, size: int, max_pixels: int = MAX_PIXELS
) -> UInt8[np.ndarray, "channel height width"]:
    """Decode an image of a format in `RECEIVED`. Size and colours as in `read_image`. ImageError
    with this name if it cannot be decoded."""
    from PIL import UnidentifiedImageError

    if content.startswith(b"\xff\xd8") and content.count(SCAN) > MAX_SCANS:
        raise ImageError(
            f"cannot read the image {name}: a JPEG of {content.count(SCAN):,} scans, expected at "
            f"most {MAX_SCANS}; save it as a baseline JPEG"
        )
    file = io.BytesIO(content)
    with _one_line(name):
        try:
            image = _decoded(file, name, lambda _: (size, size), max_pixels, RECEIVED)
        except UnidentifiedImageError as error:
            formats = ", ".join(RECEIVED)
            raise ImageError(
                f"cannot read the image {name}: expected one of the formats {formats}"
            ) from error
    return _channels_first(image)


def _read(
    source: str, fit: Callable[[Image], tuple[int, int]], max_pixels: int
) -> UInt8[np.ndarray, "channel height width"]:
    """Read an image at the width and height that `fit` returns."""
    try:
        path = check_input(source)
    except UserError as error:
        message = str(error).replace("cannot read ", "cannot read the image ", 1)
        raise ImageError(message) from error
    with _one_line(source):
        image = _decoded(str(path), str(path), fit, max_pixels)
    return _channels_first(image)


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Turn any exception of Pillow into an ImageError with the name of the image."""
    try:
        yield
    except ImageError:
        raise
    except Exception as error:  # Pillow's plug-ins raise exceptions of any type
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ImageError(
            f"cannot read the image {name}: {reason or type(error).__name__}"
        ) from error


def _channels_first(image: Image) -> UInt8[np.ndarray, "channel height width"]:
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def _decoded(
    file: str | io.BytesIO,
    name: str,
    fit: Callable[[Image], tuple[int, int]],
    max_pixels: int,
    formats: Sequence[str] | None = None,
) -> Image:
    """Decode an image to RGB at the size that `fit` returns. Any exception of Pillow. `formats` are
    Pillow's names of the formats that are decoded; None for all."""
    from PIL import ImageOps

    image_library = _pillow()
    with image_library.open(file, formats=formats) as opened:
        _bound(opened, name, max_pixels)
        image = _eight_bits(ImageOps.exif_transpose(opened))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = image_library.new("RGBA", image.size, (255, 255, 255, 255))
        ground.alpha_composite(image)
        image = ground
    resized: Image = image.convert("RGB").resize(fit(image), image_library.Resampling.BICUBIC)
    return resized


@cache
def _pillow() -> ModuleType:
    """Return Pillow without its warning of many pixels: `max_pixels` is lower, and an error."""
    import PIL.Image

    warnings.filterwarnings("ignore", category=PIL.Image.DecompressionBombWarning)
    return PIL.Image


def _bound(opened: Image, source: str, max_pixels: int) -> None:
    """Raise an ImageError for too many pixels, unless a JPEG can be decoded at a smaller size."""
    width, height = opened.size
    if width * height <= max_pixels:
        return
    is_baseline = opened.format == "JPEG" and not opened.info.get("progressive")
    if is_baseline and width * height <= MAX_DRAFT * max_pixels:
        opened.draft(opened.mode, (width // 8, height // 8))
    if opened.width * opened.height > max_pixels:
        raise ImageError(
            f"cannot read the image {source}: it has {width} x {height} pixels, more than "
            f"{max_pixels:,} (data.max_pixels): scale it down, or raise data.max_pixels"
        )


def _eight_bits(image: Image) -> Image:
    """Scale wide greys to bytes; Pillow would clip them."""
    if image.mode != "F" and not image.mode.startswith("I"):
        return image
    wide = np.asarray(image)

    def values(first: int) -> np.ndarray:
        rows = wide[first : first + ROWS_AT_A_TIME].astype(np.float64)
        return np.nan_to_num(rows).clip(min=0)

    starts = range(0, len(wide), ROWS_AT_A_TIME)
    lightest = max(float(values(first).max()) for first in starts)
    whites = WHITES if image.mode == "F" else WHITES[1:]
    white = next((white for white in whites if lightest <= white), lightest)
    narrow = np.empty(wide.shape, np.uint8)
    for first in starts:
        narrow[first : first + ROWS_AT_A_TIME] = (values(first) * (255 / white)).round()
    eight_bits: Image = _pillow().fromarray(narrow)
    return eight_bits


def draw_scene(source: str, size: int) -> UInt8[np.ndarray, "channel height width"]:
    """Draw a generated scene from its text. ImageError for any other text."""
    try:
        return scenes.pixels(scenes.Scene.of(source), size)
    except UserError as error:
        raise ImageError(
            f"there is no file {shorten_name(source)}, and it is not a scene: {error}"
        ) from error
