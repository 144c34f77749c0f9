"""Input images of a captioner.

An image is read from a file, or drawn if the source describes a scene. The model takes the image
itself, or the features that a pretrained network computes from it; features are cached for the
next run.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from regard import trace
from regard.config import CaptionDataConfig
from regard.corpora.cache import DataCache, cache_folder
from regard.corpora.file_digests import digests_of
from regard.data.batch import GridFeatures, Images
from regard.data.images.array_file import ArrayFile
from regard.data.images.encoded import ImageSet, as_source
from regard.data.images.images import (
    MAX_PIXELS,
    ImageError,
    draw_scene,
    read_image,
    read_proportional,
)
from regard.errors import UserError, counted, listed
from regard.models.vision.backbone import Backbone
from regard.runtime.progress import OnProgress
from regard.storage.files import UnwritableError, check_name, shorten_name

log = logging.getLogger(__name__)

FORMAT = 3
"""Version of the cached numbers: raised when the same images give other numbers."""
MAX_SIDE = 800
"""Largest side in pixels of an image in a figure."""
SHOWN = 5
"""Number of image names in one message."""
AT_A_TIME = 16
"""Number of images that are read, or passed through a pretrained network, together."""


@dataclass(frozen=True)
class ImageSources:
    """Images stretched to squares of one size. If `scenes` is true, a source that names no file
    describes a scene to draw. With a `backbone` that is not trained, the model takes features."""

    side: int
    scenes: bool = False
    backbone: Backbone | None = field(default=None, compare=False)
    max_pixels: int = MAX_PIXELS
    folder: Path | None = field(default=None, compare=False)
    """Folder of the images of the data."""

    @classmethod
    def of(cls, config: CaptionDataConfig, backbone: Backbone | None = None) -> ImageSources:
        """Return the images of a recipe."""
        scenes = config.synthetic is not None
        folder = config.images or (None if config.path is None else config.path.parent)
        place = None if folder is None else folder.absolute()
        return cls(config.image_size, scenes, backbone, config.max_pixels, place)

    def name_of(self, source: str) -> str:
        """Return the name of an image for logs and tables: relative to the folder of the images, if
        it is there."""
        try:
            is_inside = self.folder is not None and Path(source).is_relative_to(self.folder)
        except ValueError:
            return source
        return str(Path(source).relative_to(self.folder)) if is_inside and self.folder else source

    def read(self, source: str) -> np.ndarray:
        """Return an image with axes channel, height and width, from 0 to 255. ImageError names an
        image that cannot be read."""
        if self._is_scene(source):
            return self._scene(source)
        return read_image(source, self.side, self.max_pixels)

    def show(self, source: str) -> np.ndarray:
        """Return an image for a figure: a photograph in its own proportions."""
        if self._is_scene(source):
            return self._scene(source)
        return read_proportional(source, MAX_SIDE, self.max_pixels)

    def _is_scene(self, source: str) -> bool:
        try:
            return self.scenes and not Path(source).is_file()
        except OSError:  # longer than a file name can be
            return self.scenes

    def _scene(self, source: str) -> np.ndarray:
        try:
            check_name(source)
        except UserError as error:
            raise ImageError(str(error)) from error
        return draw_scene(source, self.side)

    @torch.inference_mode()
    def features_of(self, images: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Return the model's inputs for images: the images or their features."""
        if self.backbone is None:
            return images
        batch = torch.from_numpy(np.stack(images)).to(self.backbone.mean.device)
        return list(self.backbone(batch).to("cpu", torch.float16).numpy())

    def sequence(self, text: str, content: np.ndarray) -> trace.TokenSequence:
        """Return the name of an image; the positions of its maps are cells of the image."""
        del content
        return trace.TokenSequence(text, (), ())

    def pad(self, contents: Sequence[np.ndarray]) -> Images | GridFeatures:
        """Return model inputs as one batch."""
        return as_source(np.stack(contents))

    def image_set(
        self, sources: Iterable[str], on_progress: OnProgress | None = None
    ) -> tuple[ImageSet, tuple[str, ...]]:
        """Return the inputs of all distinct images that can be read, and a message about the
        others. UserError if no image can be read."""
        names = list(dict.fromkeys(sources))
        digest = self._digest(names)
        rows = self._rows(len(names), digest)
        for place in list(rows.broken):  # the file may have been repaired
            (content,) = self.contents([names[place]])
            if not isinstance(content, str):
                rows.repair(place, content)
        for row in self.contents(names[rows.done :]):
            rows.put(row)
            if on_progress and rows.done % AT_A_TIME == 0:
                on_progress("reading images", rows.done, len(names))
        places = {name: row for row, name in enumerate(names) if row not in rows.broken}
        broken = list(rows.broken.values())
        if not places:
            raise _nothing_read(names, broken)
        return ImageSet(rows.values, places, digest), _unread(broken, self.folder)

    def contents(self, names: Sequence[str]) -> Iterator[np.ndarray | str]:
        """Yield the model's input for each image, or a message if the image cannot be read."""
        for first in range(0, len(names), AT_A_TIME):
            read: list[np.ndarray | str] = []
            for name in names[first : first + AT_A_TIME]:
                try:
                    read.append(self.read(name))
                except ImageError as error:
                    read.append(str(error))
            images = [content for content in read if not isinstance(content, str)]
            inputs = iter(self.features_of(images) if images else ())
            yield from (content if isinstance(content, str) else next(inputs) for content in read)

    def _rows(self, count: int, digest: str) -> ArrayFile:
        """Return memory for the inputs: a file in the cache, or RAM for scenes, which are drawn
        fast."""
        shape: tuple[int, ...] = (3, self.side, self.side)
        if self.backbone is not None:
            shape = self.backbone.shape(self.side)
        kind = np.dtype(np.uint8 if self.backbone is None else np.float16)
        if not self.scenes:
            try:
                cache = DataCache(cache_folder(), f"{digest} pillow {version('pillow')}")
                return ArrayFile(count, shape, kind, cache.place("images"))
            except (OSError, UnwritableError) as error:
                log.warning(
                    "%s: images are held in memory, and the next run reads them again. Set "
                    "REGARD_CACHE to another folder to cache them",
                    error,
                )
        return ArrayFile(count, shape, kind)

    def _digest(self, names: Sequence[str]) -> str:
        """Return a digest of the names and contents of the files, and of the settings."""
        settings = [FORMAT, self.side, self.scenes, self.max_pixels]
        digest = hashlib.sha256(json.dumps(settings).encode())
        if self.backbone is not None:
            digest.update(self.backbone.digest().encode())
        contents = digests_of(names, cache_folder())
        for name, content in zip(names, contents, strict=True):
            digest.update(json.dumps([name, content]).encode())
        return digest.hexdigest()


def _nothing_read(names: Sequence[str], broken: Sequence[str]) -> UserError:
    """Return the error for images of which none can be read. `broken` has a message for each."""
    folders = {str(Path(name).parent) for name in names}
    if len(names) > 1 and len(folders) == 1 and not any(map(_exists, names)):
        return UserError(
            f"none of the {len(names)} images is in {shorten_name(folders.pop())}, such as "
            f"{shorten_name(Path(names[0]).name)}: name their folder with --data.images"
        )
    return UserError(f"cannot read any of the {len(names)} images: {'; '.join(broken[:1])}")


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _unread(broken: Sequence[str], folder: Path | None) -> tuple[str, ...]:
    """Return a message about images that cannot be read, with names relative to their folder."""
    if not broken:
        return ()
    if folder is not None and all(f"{folder}/" in message for message in broken):
        broken = [message.replace(f"{folder}/", "", 1) for message in broken]
        where = f" of {folder}"
    else:
        where = ""
    return (f"left out {counted(len(broken), 'image')}{where}: {listed(broken, SHOWN, '; ')}",)
