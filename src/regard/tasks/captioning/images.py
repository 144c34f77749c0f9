"""Pictures for a model: read from files, or drawn where a source tells a scene; as they are, or as
the cells that a pretrained network makes of them, which are kept for the next run."""

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
from regard.errors import UserError
from regard.files import UnwritableError, check_name
from regard.models.vision_backbone import Backbone
from regard.runs.cache import DataCache, cache_folder
from regard.runs.file_digests import digests_of
from regard.runs.progress import OnProgress

log = logging.getLogger(__name__)

FORMAT = 3
"""To be raised where other numbers are made of the same pictures."""
MOST_DOTS = 800
"""Of the longer side of a picture for people."""
SHOWN = 5
"""Names of pictures that one line lists."""
AT_A_TIME = 16
"""Pictures that are read, or seen by a pretrained network, together."""


@dataclass(frozen=True)
class PictureSources:
    """Pictures stretched to squares of one size; a source that is no file is a scene, where the
    model was trained on some. A model whose pretrained network does not learn sees cells."""

    side: int
    scenes: bool = False
    backbone: Backbone | None = field(default=None, compare=False)
    max_pixels: int = MAX_PIXELS

    @classmethod
    def of(cls, config: CaptionDataConfig, backbone: Backbone | None = None) -> PictureSources:
        scenes = config.generated is not None
        return cls(config.picture_size, scenes, backbone, config.max_pixels)

    def read(self, source: str) -> np.ndarray:
        """Axes channel, height and width, from 0 to 255; PictureError names what cannot be read."""
        if self._is_scene(source):
            return self._scene(source)
        return read_image(source, self.side, self.max_pixels)

    def show(self, source: str) -> np.ndarray:
        """The same for people: a photograph has its own proportions."""
        if self._is_scene(source):
            return self._scene(source)
        return read_proportional(source, MOST_DOTS, self.max_pixels)

    def _is_scene(self, source: str) -> bool:
        try:
            return self.scenes and not Path(source).is_file()
        except OSError:  # no file has so long a name
            return self.scenes

    def _scene(self, source: str) -> np.ndarray:
        try:
            check_name(source)
        except UserError as error:
            raise ImageError(str(error)) from error
        return draw_scene(source, self.side)

    @torch.inference_mode()
    def features_of(self, pictures: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """What the model is given of these."""
        if self.backbone is None:
            return pictures
        together = torch.from_numpy(np.stack(pictures)).to(self.backbone.mean.device)
        return list(self.backbone(together).to("cpu", torch.float16).numpy())

    def sequence(self, text: str, content: np.ndarray) -> trace.TokenSequence:
        """Its name; what is looked at are cells."""
        del content
        return trace.TokenSequence(text, (), ())

    def pad(self, contents: Sequence[np.ndarray]) -> Images | GridFeatures:
        """What the model is given of several, as one batch."""
        return as_source(np.stack(contents))

    def image_set(
        self, sources: Iterable[str], on_progress: OnProgress | None = None
    ) -> tuple[ImageSet, tuple[str, ...]]:
        """Every different one that can be read, and a sentence about the others. UserError where
        there is none."""
        names = list(dict.fromkeys(sources))
        digest = self._digest(names)
        rows = self._rows(len(names), digest)
        for place in list(rows.broken):  # the reason may be gone
            (again,) = self.made([names[place]])
            if not isinstance(again, str):
                rows.repair(place, again)
        for row in self.made(names[rows.done :]):
            rows.put(row)
            if on_progress and rows.done % AT_A_TIME == 0:
                on_progress("reading pictures", rows.done, len(names))
        places = {name: row for row, name in enumerate(names) if row not in rows.broken}
        broken = list(rows.broken.values())
        if not places:
            raise UserError(f"none of {len(names)} pictures can be read: {'; '.join(broken[:1])}")
        return ImageSet(rows.values, places, digest), _left_out(broken)

    def made(self, names: Sequence[str]) -> Iterator[np.ndarray | str]:
        """What the model is given of each, or why it cannot be read."""
        for first in range(0, len(names), AT_A_TIME):
            read: list[np.ndarray | str] = []
            for name in names[first : first + AT_A_TIME]:
                try:
                    read.append(self.read(name))
                except ImageError as error:
                    read.append(str(error))
            pictures = [each for each in read if not isinstance(each, str)]
            seen = iter(self.features_of(pictures) if pictures else ())
            yield from (each if isinstance(each, str) else next(seen) for each in read)

    def _rows(self, count: int, digest: str) -> ArrayFile:
        """Room for what the model is given: in the cache, but for scenes, which are drawn fast."""
        shape: tuple[int, ...] = (3, self.side, self.side)
        if self.backbone is not None:
            shape = self.backbone.shape(self.side)
        kind = np.dtype(np.uint8 if self.backbone is None else np.float16)
        if not self.scenes:
            try:
                cache = DataCache(cache_folder(), f"{digest} pillow {version('pillow')}")
                return ArrayFile(count, shape, kind, cache.place("pictures"))
            except (OSError, UnwritableError) as error:
                log.warning(
                    "%s: pictures are held in memory and read anew by the next run. REGARD_CACHE "
                    "can name another folder",
                    error,
                )
        return ArrayFile(count, shape, kind)

    def _digest(self, names: Sequence[str]) -> str:
        """Return a digest of the files' names and contents, and of how they are read."""
        settings = [FORMAT, self.side, self.scenes, self.max_pixels]
        digest = hashlib.sha256(json.dumps(settings).encode())
        if self.backbone is not None:
            digest.update(self.backbone.digest().encode())
        contents = digests_of(names, cache_folder())
        for name, content in zip(names, contents, strict=True):
            digest.update(json.dumps([name, content]).encode())
        return digest.hexdigest()


def _left_out(broken: Sequence[str]) -> tuple[str, ...]:
    if not broken:
        return ()
    more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
    number = "1 picture" if len(broken) == 1 else f"{len(broken)} pictures"
    return (f"left out {number}: {'; '.join(broken[:SHOWN])}{more}",)
