"""How captions fit drawn scenes: whether what they say is so, and whether the model looked at what
it spoke of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regard.data.generated.scenes import Claim, Scene, claims, is_true
from regard.metrics.text import Score
from regard.pipeline.translator import Translation
from regard.shapes import Float
from regard.trace import of_kind


class SceneScores:
    """Scores of captions that come some at a time."""

    def __init__(self) -> None:
        self._true: list[bool] = []
        self._shares: list[float] = []

    def add(self, scenes: Sequence[Scene], found: Sequence[Translation]) -> None:
        """Captions with what they looked at, and the scenes that they are of."""
        for scene, caption in zip(scenes, found, strict=True):
            self._true.append(is_true(caption.text, scene))
            for claim in claims(caption.text) or ():
                if claim.shape in scene.shapes:
                    self._shares.append(attention_inside(caption, claim))

    def scores(self) -> tuple[Score, ...]:
        """The percentage of captions that are true; and how many times as much attention lies in
        the box of a shape that is spoken of as would if all places had alike, the mean over the
        shapes that are there. That is nan where there are none."""
        looked = float(np.mean(self._shares)) if self._shares else math.nan
        return (
            Score("true", 100 * float(np.mean(self._true)), f"scenes:{len(self._true)}"),
            Score("attention", looked, f"of its box's share|shapes:{len(self._shares)}"),
        )


def attention_inside(caption: Translation, claim: Claim) -> float:
    """The mean over the words for a shape's size, colour and kind, layers and heads, of the share
    of their attention that is in the shape's box, over the box's share of the picture."""
    if caption.looked is None:
        raise ValueError("nothing is known of what was looked at: attention=True asks for it")
    (block,) = of_kind(caption.maps, "image")
    weights: Float[np.ndarray, "piece cell"] = block.weights.mean(axis=(0, 1))
    inside = claim.shape.inside(math.isqrt(weights.shape[1]))
    told = np.isin(caption.looked.target.words, claim.words)
    return float((weights[told] @ inside).mean() / inside.mean())
