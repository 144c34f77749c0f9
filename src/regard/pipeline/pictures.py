"""Pictures for a model: read from files, or drawn where a source tells a scene."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard import trace
from regard.config import CaptionDataConfig
from regard.data.batch import Pictures
from regard.data.captioned import Gallery
from regard.data.pictures import PictureError, draw_scene, read_picture
from regard.errors import UserError
from regard.pipeline.watching import Watch, watched

SHOWN = 5
"""Names of pictures that one line lists."""


@dataclass(frozen=True)
class PictureSources:
    """Pictures stretched to squares of one size; a source that is no file is a scene, where the
    model was trained on some."""

    side: int
    scenes: bool = False

    @classmethod
    def of(cls, config: CaptionDataConfig) -> PictureSources:
        return cls(config.picture_size, config.generated is not None)

    def read(self, source: str) -> np.ndarray:
        """Axes channel, height and width, from 0 to 255; PictureError names what cannot be read."""
        if self.scenes and not Path(source).is_file():
            return draw_scene(source, self.side)
        return read_picture(source, self.side)

    def sequence(self, text: str, content: np.ndarray) -> trace.Sequence:
        """Its name; what is looked at are cells."""
        del content
        return trace.Sequence(text, (), ())

    def pad(self, contents: Sequence[np.ndarray]) -> Pictures:
        """Several of them as one batch."""
        return Pictures(torch.from_numpy(np.stack(contents)))

    def gallery(
        self, sources: Iterable[str], watch: Watch | None = None
    ) -> tuple[Gallery, tuple[str, ...]]:
        """Every different one that can be read, and a sentence about the others. UserError where
        there is none."""
        names = list(dict.fromkeys(sources))
        values, kept, broken = [], [], []
        for name in watched(names, "reading pictures", len(names), watch):
            try:
                values.append(self.read(name))
                kept.append(name)
            except PictureError as error:
                broken.append(str(error))
        if not kept:
            raise UserError(f"none of {len(names)} pictures can be read: {'; '.join(broken[:1])}")
        return Gallery(np.stack(values), tuple(kept)), _left_out(broken)


def _left_out(broken: Sequence[str]) -> tuple[str, ...]:
    if not broken:
        return ()
    more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
    number = "1 picture" if len(broken) == 1 else f"{len(broken)} pictures"
    return (f"left out {number}: {'; '.join(broken[:SHOWN])}{more}",)
